-- Closes a run that its server leaves unfinished. $1 run_id bigint, $2 error text. Primary key.
update maintenance_run
set finished_at = clock_timestamp(), last_seen_at = clock_timestamp(), abandoned = true, error = $2
where run_id = $1 and finished_at is null
