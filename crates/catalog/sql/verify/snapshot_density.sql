-- Whether the retained snapshots are [earliest, head] without a gap. Those below the floor have expired and wait for
-- their deletion. $1 catalog_id bigint. Primary key of snapshot. One row: violations, samples.
with floor as materialized (
  select earliest_snapshot, head_snapshot from catalog where catalog_id = $1
), retained as materialized (
  -- apart from the floor, so that Postgres may count in parallel
  select count(*) as found, min(snapshot_id) as low from snapshot
  where catalog_id = $1 and snapshot_id >= (select earliest_snapshot from floor)
), range as (
  select f.*, r.*, (select max(x.snapshot_id) from snapshot x where x.catalog_id = $1) as high from floor f, retained r
), violation as materialized (
  select format('%s snapshots are retained, [%s, %s] needs %s', found, earliest_snapshot, head_snapshot,
                head_snapshot - earliest_snapshot + 1) as detail
  from range where found <> head_snapshot - earliest_snapshot + 1
  union all
  select format('the oldest retained snapshot is %s, the floor is %s', coalesce(low::text, 'missing'), earliest_snapshot)
  from range where low is distinct from earliest_snapshot
  union all
  select format('the newest snapshot is %s, head is %s', coalesce(high::text, 'missing'), head_snapshot)
  from range where high is distinct from head_snapshot
)
select (select count(*) from violation), array(select detail from violation limit 20)
