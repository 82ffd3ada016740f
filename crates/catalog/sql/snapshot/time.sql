-- When a snapshot was made. $1 catalog_id bigint, $2 snapshot_id bigint. Primary key.
select snapshot_time from snapshot where catalog_id = $1 and snapshot_id = $2
