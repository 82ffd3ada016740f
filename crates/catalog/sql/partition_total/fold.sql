-- Folds the next snapshots into the totals. $1 catalog_id bigint, $2 folded so far bigint, $3 target_bytes bigint,
-- $4 snapshots at most bigint. Under the lock of partition_fold. Returns the snapshot folded to, and head.
with bound as materialized (
  select head_snapshot, least(head_snapshot, $2::bigint + $4::bigint) as upto from catalog where catalog_id = $1
), delta as materialized (
  select d.* from bound, partition_delta($1, $2, bound.upto, $3) d
  join table_identity i on i.catalog_id = $1 and i.table_id = d.table_id and not i.purged
), folded as (
  insert into partition_total as t (catalog_id, table_id, spec_id, tuple, partition_values, file_count, total_bytes,
                                    small_file_count, small_file_bytes, dv_count)
  select $1, table_id, spec_id, tuple, partition_values, file_count, total_bytes, small_file_count, small_file_bytes,
         dv_count
  from delta
  on conflict (catalog_id, table_id, spec_id, tuple) do update
  set file_count = t.file_count + excluded.file_count,
      total_bytes = t.total_bytes + excluded.total_bytes,
      small_file_count = t.small_file_count + excluded.small_file_count,
      small_file_bytes = t.small_file_bytes + excluded.small_file_bytes,
      dv_count = t.dv_count + excluded.dv_count
)
update partition_fold set folded_snapshot = upto from bound where catalog_id = $1 returning folded_snapshot, head_snapshot
