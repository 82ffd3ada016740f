-- Partitions as debts.sql has them, for whoever may not fold: the folded totals and what was committed since, or a count of
-- all small live files where nothing was ever folded for this target. $1 catalog_id bigint, $2 partitions at most bigint,
-- $3 target bytes bigint. Index partition_total_by_debt, those of partition_delta, data_file_live, primary keys,
-- table_one_live_name.
with fold as materialized (
  select p.folded_snapshot, c.head_snapshot
  from partition_fold p join catalog c using (catalog_id)
  where p.catalog_id = $1 and p.target_bytes = $3
), small as (
  select t.table_id, t.spec_id, t.tuple, t.small_file_count
  from partition_total t
  where t.catalog_id = $1 and t.small_file_count > 0 and exists (select from fold)
  union all
  select d.table_id, d.spec_id, d.tuple, d.small_file_count
  from fold, partition_delta($1, fold.folded_snapshot, fold.head_snapshot, $3) d
  union all
  select f.table_id, coalesce(f.spec_id, 0), md5(coalesce(f.partition_values::text, ''))::uuid, 1
  from table_identity i
  join data_file f on f.catalog_id = $1 and f.table_id = i.table_id and f.end_snapshot is null
  where i.catalog_id = $1 and i.dropped_snapshot is null and f.file_size_bytes < $3 and not exists (select from fold)
), debt as (
  select table_id, spec_id, tuple, sum(small_file_count) as small_file_count
  from small group by table_id, spec_id, tuple
)
select t.table_id, n.name as namespace, v.name as table_name, i.ddl_snapshot, nullif(t.spec_id, 0) as spec_id, t.tuple
from debt t
join table_identity i on i.catalog_id = $1 and i.table_id = t.table_id and i.dropped_snapshot is null
join table_version v on v.catalog_id = $1 and v.table_id = t.table_id and v.end_snapshot is null
join namespace n on n.catalog_id = $1 and n.namespace_id = v.namespace_id
where t.small_file_count > 0
order by t.small_file_count desc
limit $2
