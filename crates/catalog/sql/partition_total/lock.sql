-- How far the totals are folded, locked against other folders. $1 catalog_id bigint. Primary key. At most one row.
select folded_snapshot, target_bytes from partition_fold where catalog_id = $1 for update
