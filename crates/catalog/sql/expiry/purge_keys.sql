-- A page of idempotency keys that are at least a day old and whose snapshot, if any, is below the floor.
-- $1 catalog_id bigint, $2 floor bigint, $3 rows bigint. Index idempotency_key_by_snapshot.
with gone as materialized (
  (select key from idempotency_key
   where catalog_id = $1 and snapshot_id < $2 and created_at < clock_timestamp() - interval '24 hours' limit $3)
  union all
  (select key from idempotency_key
   where catalog_id = $1 and snapshot_id is null and created_at < clock_timestamp() - interval '24 hours' limit $3)
), deleted as (
  delete from idempotency_key k using gone where k.catalog_id = $1 and k.key = gone.key
)
select (select count(*) from gone) as rows, 0::bigint as queued, 0::bigint as vectors_queued
