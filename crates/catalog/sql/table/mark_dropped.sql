-- Drops a table; its names for consumers stay. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint.
-- Primary keys. Returns the number of its files at head.
update table_identity i
set dropped_snapshot = $3, ddl_snapshot = $3
from table_counter k
where i.catalog_id = $1 and i.table_id = $2 and k.catalog_id = $1 and k.table_id = $2
returning k.file_count
