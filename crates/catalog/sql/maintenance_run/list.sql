-- A page of runs, newest first. $1 catalog_id bigint, $2 before run_id bigint or null, $3 limit bigint.
-- Index maintenance_run_by_catalog.
select run_id, task, started_at, finished_at, result::text as result, error
from maintenance_run
where catalog_id = $1 and ($2::bigint is null or run_id < $2)
order by run_id desc
limit $3
