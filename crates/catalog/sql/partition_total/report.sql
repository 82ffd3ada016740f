-- Partitions of live tables, most small files first: the folded totals and what was committed since.
-- $1 catalog_id bigint, $2 namespace text or null, $3 table text or null, $4 limit bigint. Primary keys,
-- table_one_live_name; proportional to partitions, not to files.
with fold as materialized (
  select p.folded_snapshot, p.target_bytes, c.head_snapshot
  from catalog c join partition_fold p using (catalog_id) where c.catalog_id = $1
), live as materialized (
  select v.table_id, n.name as namespace, v.name as table_name, i.table_uuid,
         (select s.spec_id from partition_spec s
          where s.catalog_id = $1 and s.table_id = v.table_id and s.end_snapshot is null
            and exists (select from partition_spec_field f
                        where f.catalog_id = $1 and f.table_id = s.table_id and f.spec_id = s.spec_id)) as live_spec
  from table_version v
  join namespace n on n.catalog_id = $1 and n.namespace_id = v.namespace_id
  join table_identity i on i.catalog_id = $1 and i.table_id = v.table_id
  where v.catalog_id = $1 and v.end_snapshot is null and i.dropped_snapshot is null
    and ($2::text is null or n.name = $2) and ($3::text is null or v.name = $3)
), total as (
  select t.table_id, nullif(t.spec_id, 0) as spec_id, t.partition_values, sum(t.file_count)::bigint as file_count,
         sum(t.total_bytes)::bigint as total_bytes, sum(t.small_file_count)::bigint as small_file_count,
         sum(t.small_file_bytes)::bigint as small_file_bytes, sum(t.dv_count)::bigint as dv_count
  from (
    select table_id, spec_id, partition_values, file_count, total_bytes, small_file_count, small_file_bytes, dv_count
    from partition_total where catalog_id = $1
    union all
    select d.table_id, d.spec_id, d.partition_values, d.file_count, d.total_bytes, d.small_file_count,
           d.small_file_bytes, d.dv_count
    from fold, partition_delta($1, fold.folded_snapshot, fold.head_snapshot, fold.target_bytes) d) t
  join live using (table_id)
  group by t.table_id, t.spec_id, t.partition_values
  having sum(t.file_count) > 0
), ranked as (
  select l.namespace, l.table_name, l.table_uuid, t.*,
         count(*) over () as groups,
         count(*) filter (where t.spec_id is distinct from l.live_spec) over () as stale
  from total t join live l using (table_id)
  order by t.small_file_count desc, t.small_file_bytes desc, l.namespace, l.table_name, t.spec_id nulls first,
           t.partition_values
  limit $4
)
select r.namespace, r.table_name, r.table_uuid, r.table_id, r.spec_id, r.partition_values, r.file_count, r.total_bytes,
       r.small_file_count, r.small_file_bytes, r.dv_count, r.groups, r.stale,
       (select array_agg(
          coalesce(c.name, 'field_' || f.source_field_id)
            || case when f.transform = 'identity' then '' else '_' || f.transform::text end order by f.key_index)
        from partition_spec_field f
        left join lateral (
          select name from table_column c
          where c.catalog_id = $1 and c.table_id = r.table_id and c.field_id = f.source_field_id
          order by c.begin_snapshot desc limit 1) c on true
        where f.catalog_id = $1 and f.table_id = r.table_id and f.spec_id = r.spec_id) as labels
from ranked r
order by r.small_file_count desc, r.small_file_bytes desc, r.namespace, r.table_name, r.spec_id nulls first,
         r.partition_values
