-- What the head of an export says of its catalog. $1 catalog_id bigint. Primary key.
select name, data_path, head_snapshot, head_snapshot_time, earliest_snapshot, earliest_snapshot_time
from catalog
where catalog_id = $1
