-- Moves an offset forward, if all rules hold, and tells what they are judged by. Under the shared floor lock.
-- $1 catalog_id bigint, $2 consumer_id text, $3 table_uuid uuid, $4 snapshot bigint. Primary keys, table_uuid_unique.
-- One row; updated_at is null when nothing was written.
with bounds as (
  select head_snapshot, earliest_snapshot, earliest_snapshot_time from catalog where catalog_id = $1
), known as (
  select 1 from table_identity where catalog_id = $1 and table_uuid = $3
), moved as (
  insert into consumer_offset (catalog_id, consumer_id, table_uuid, committed_snapshot)
  select $1, $2, $3, $4 from bounds, known where $4 between earliest_snapshot and head_snapshot
  on conflict (catalog_id, consumer_id, table_uuid) do update
  set committed_snapshot = excluded.committed_snapshot, updated_at = clock_timestamp()
  where consumer_offset.committed_snapshot <= excluded.committed_snapshot
  returning updated_at
)
select head_snapshot, earliest_snapshot, earliest_snapshot_time,
       exists (select 1 from known) as table_known, (select updated_at from moved) as updated_at
from bounds
