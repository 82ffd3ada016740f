-- Prolongs a lease that is still ours. $1 catalog_id bigint, $2 task text, $3 holder uuid, $4 fence bigint, $5 seconds
-- double precision. Primary key.
update lease set expires_at = clock_timestamp() + make_interval(secs => $5)
where catalog_id = $1 and task = $2 and holder = $3 and fence = $4
