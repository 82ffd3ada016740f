-- A table by name at a snapshot. $1 catalog_id bigint, $2 namespace text, $3 table text, $4 snapshot bigint.
-- Indexes namespace_by_name, table_version_by_name (the newest version of the name begun by then is the only
-- candidate), primary keys. No row: no such namespace; null table_id: no such table.
select n.namespace_id, v.table_id, i.table_uuid
from (
  select namespace_id, end_snapshot from namespace
  where catalog_id = $1 and name = $2 and begin_snapshot <= $4
  order by begin_snapshot desc
  limit 1
) n
left join lateral (
  select table_id, end_snapshot from table_version
  where catalog_id = $1 and namespace_id = n.namespace_id and name = $3 and begin_snapshot <= $4
  order by begin_snapshot desc
  limit 1
) v on v.end_snapshot is null or $4 < v.end_snapshot
left join table_identity i on i.catalog_id = $1 and i.table_id = v.table_id
where n.end_snapshot is null or $4 < n.end_snapshot
