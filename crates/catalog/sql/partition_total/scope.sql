-- A live namespace and the live table in it. $1 catalog_id bigint, $2 namespace text, $3 table text (blank: none).
-- Indexes namespace_live_name, table_live_name. A row when the namespace exists: the table's id or null.
select (select v.table_id from table_version v
        where v.catalog_id = $1 and v.namespace_id = n.namespace_id and v.name = $3 and v.end_snapshot is null)
from namespace n
where n.catalog_id = $1 and n.name = $2 and n.end_snapshot is null
