-- Makes sure that there is a lease to take. $1 catalog_id bigint, $2 task text.
insert into lease (catalog_id, task) values ($1, $2) on conflict do nothing
