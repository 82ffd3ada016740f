-- Closes a run, even where others have given it up. $1 run_id bigint, $2 result text (JSON) or null, $3 error text or null.
-- Primary key.
update maintenance_run
set finished_at = clock_timestamp(), last_seen_at = clock_timestamp(), result = $2::json, error = $3, abandoned = false
where run_id = $1 and (finished_at is null or abandoned)
