-- Makes sure that there is a row to lock; a target that nobody uses says that nothing is folded yet.
-- $1 catalog_id bigint.
insert into partition_fold (catalog_id, folded_snapshot, target_bytes) values ($1, -1, -1) on conflict do nothing
