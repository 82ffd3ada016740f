-- Whether a task was done within some time. $1 catalog_id bigint, $2 task text, $3 seconds double precision.
-- Index maintenance_run_by_age.
select exists (
  select from maintenance_run
  where catalog_id = $1 and started_at > clock_timestamp() - make_interval(secs => $3) and task = $2
    and result is not null)
