-- Closes runs whose server is not heard of any more: they ended when they were last heard of. $1 catalog_id bigint,
-- $2 seconds of silence double precision, $3 error text. Index maintenance_run_open. A row a run.
update maintenance_run
set finished_at = last_seen_at, abandoned = true, error = $3
where catalog_id = $1 and finished_at is null and last_seen_at < clock_timestamp() - make_interval(secs => $2)
returning task
