-- A page of snapshots below the floor, with their changes. $1 catalog_id bigint, $2 floor bigint, $3 rows bigint.
-- Primary keys. One row: snapshots deleted.
with page as materialized (
  select min(snapshot_id) as low, max(snapshot_id) as high from (
    select snapshot_id from snapshot
    where catalog_id = $1 and snapshot_id < $2 order by snapshot_id limit $3) s
), snapshots as (
  delete from snapshot s using page where s.catalog_id = $1 and s.snapshot_id between page.low and page.high
  returning 1
), changes as (
  delete from snapshot_change c using page where c.catalog_id = $1 and c.snapshot_id between page.low and page.high
)
select (select count(*) from snapshots) as rows, 0::bigint as queued, 0::bigint as vectors_queued
