-- When snapshots were made. $1 catalog_id bigint, $2 snapshot_ids bigint[]. Primary key.
select snapshot_id, snapshot_time from snapshot where catalog_id = $1 and snapshot_id = any($2)
