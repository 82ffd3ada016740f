-- Says that a run goes on, even where others have given it up. $1 run_id bigint. Primary key.
update maintenance_run
set last_seen_at = clock_timestamp(), finished_at = null, error = null, abandoned = false
where run_id = $1 and (finished_at is null or abandoned)
