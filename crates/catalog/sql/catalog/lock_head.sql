-- The catalog row, read after the commit lock was taken. $1 catalog_id bigint. Primary key. One row.
select catalog_id, head_snapshot, schema_version, earliest_snapshot, next_namespace_id, next_table_id, next_view_id,
       live_table_count, live_file_count
from catalog
where catalog_id = $1
