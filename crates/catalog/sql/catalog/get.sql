-- One catalog. $1 catalog_id bigint. Primary key.
select name, data_path, head_snapshot as head_snapshot_id, schema_version, earliest_snapshot_time
from catalog
where catalog_id = $1
