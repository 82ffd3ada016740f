-- Gives a lease back. $1 catalog_id bigint, $2 task text, $3 holder uuid, $4 fence bigint. Primary key.
update lease set expires_at = '-infinity', holder = null
where catalog_id = $1 and task = $2 and holder = $3 and fence = $4
