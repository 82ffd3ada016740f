-- Counts all live files anew, as of head. $1 catalog_id bigint, $2 target_bytes bigint. Index data_file_live; reads the
-- whole manifest of live tables, once. The old totals are gone already. Returns the head.
with head as (
  select head_snapshot from catalog where catalog_id = $1
), live as (
  select f.table_id, f.spec_id, f.partition_values, count(*) as file_count, sum(f.file_size_bytes)::bigint as bytes,
         count(*) filter (where f.file_size_bytes < $2) as small,
         coalesce(sum(f.file_size_bytes) filter (where f.file_size_bytes < $2), 0)::bigint as small_bytes,
         count(d.data_file_id) as vectors
  from table_identity i
  join data_file f on f.catalog_id = $1 and f.table_id = i.table_id and f.end_snapshot is null
  left join delete_file d
    on d.catalog_id = $1 and d.data_file_id = f.data_file_id and d.end_snapshot is null
  where i.catalog_id = $1 and i.dropped_snapshot is null
  group by f.table_id, f.spec_id, f.partition_values
), totals as (
  insert into partition_total (catalog_id, table_id, spec_id, tuple, partition_values, file_count, total_bytes,
                               small_file_count, small_file_bytes, dv_count)
  select $1, table_id, coalesce(spec_id, 0), md5(coalesce(partition_values::text, ''))::uuid, partition_values,
         file_count, bytes, small, small_bytes, vectors
  from live
)
update partition_fold set folded_snapshot = head_snapshot, target_bytes = $2
from head where catalog_id = $1
returning folded_snapshot
