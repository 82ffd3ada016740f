-- Forgets old runs. $1 catalog_id bigint, $2 seconds double precision, $3 limit bigint. Index maintenance_run_by_age.
delete from maintenance_run where run_id in (
  select run_id from maintenance_run
  where catalog_id = $1 and started_at < clock_timestamp() - make_interval(secs => $2)
  order by started_at limit $3)
