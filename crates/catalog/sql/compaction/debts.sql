-- Partitions with small files of live tables, most small files first. $1 catalog_id bigint, $2 partitions at most bigint.
-- Index partition_total_by_debt, primary keys, table_one_live_name. A partition with one small file counts, because another
-- spelling of its values may have more.
select t.table_id, n.name as namespace, v.name as table_name, i.ddl_snapshot, nullif(t.spec_id, 0) as spec_id, t.tuple
from partition_total t
join table_identity i on i.catalog_id = $1 and i.table_id = t.table_id and i.dropped_snapshot is null
join table_version v on v.catalog_id = $1 and v.table_id = t.table_id and v.end_snapshot is null
join namespace n on n.catalog_id = $1 and n.namespace_id = v.namespace_id
where t.catalog_id = $1 and t.small_file_count > 0
order by t.small_file_count desc
limit $2
