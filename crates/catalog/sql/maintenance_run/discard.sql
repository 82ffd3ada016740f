-- Forgets a run that found nothing to do. $1 run_id bigint. Primary key.
delete from maintenance_run where run_id = $1 and finished_at is null
