-- A page of runs, newest first. $1 catalog_id bigint, $2 before run_id bigint or null, $3 limit bigint, $4 seconds of
-- silence double precision after which a run counts as abandoned, whether or not somebody has closed it yet.
-- Index maintenance_run_by_catalog.
select run_id, task, started_at, result::text as result, error,
       abandoned or silent as abandoned,
       case when silent then last_seen_at else finished_at end as finished_at
from maintenance_run
cross join lateral (
  select finished_at is null and last_seen_at < clock_timestamp() - make_interval(secs => $4) as silent) s
where catalog_id = $1 and ($2::bigint is null or run_id < $2)
order by run_id desc
limit $3
