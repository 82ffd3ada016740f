-- Opens a run. $1 catalog_id bigint, $2 task text. Returns its id.
insert into maintenance_run (catalog_id, task) values ($1, $2) returning run_id
