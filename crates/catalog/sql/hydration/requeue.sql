-- Queues failed live files again. $1 catalog_id bigint, $2 table_id bigint or null for all. Index data_file_failed.
-- Returns how many.
with failed as materialized (
  select f.data_file_id from data_file f
  join table_identity i on i.catalog_id = f.catalog_id and i.table_id = f.table_id and i.dropped_snapshot is null
  where f.catalog_id = $1 and f.end_snapshot is null and f.stats_state = 'failed'
    and ($2::bigint is null or f.table_id = $2)
), forgotten as (
  delete from hydration h using failed where h.catalog_id = $1 and h.data_file_id = failed.data_file_id
), requeued as (
  update data_file f set stats_state = 'pending' from failed
  where f.catalog_id = $1 and f.data_file_id = failed.data_file_id and f.stats_state = 'failed'
  returning 1
)
select count(*) from requeued
