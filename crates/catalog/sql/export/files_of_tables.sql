-- The live files and then the live vectors of each of a few small tables, in their order.
-- $1 catalog_id, $2 table ids. Run by COPY: the numbers are put into the text.
-- Indexes: data_file_live, delete_file_live, once a table: `offset 0` keeps the planner from joining the whole of them.
select x.*
from (
  select t.n, false as is_vector, f.*, null::bigint as delete_file_id, null::bigint as vector_data_file_id,
         null::text as vector_path, null::bigint as delete_count, null::bigint as vector_size_bytes,
         null::bigint as vector_begin
  from unnest($2) with ordinality t(table_id, n)
  cross join lateral (
    select f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start, f.stats_state,
           f.begin_snapshot, f.spec_id, f.partition_values, f.explicit_row_ids
    from data_file f
    where f.catalog_id = $1 and f.table_id = t.table_id and f.end_snapshot is null
    offset 0) f
  union all
  select t.n, true, null, null, null, null, null, null, null, null, null, null, null, d.*
  from unnest($2) with ordinality t(table_id, n)
  cross join lateral (
    select d.delete_file_id, d.data_file_id, d.path, d.delete_count, d.file_size_bytes, d.begin_snapshot
    from delete_file d
    where d.catalog_id = $1 and d.table_id = t.table_id and d.end_snapshot is null
    offset 0) d
) x
order by x.n, x.is_vector, x.row_id_start, x.data_file_id, x.vector_data_file_id
