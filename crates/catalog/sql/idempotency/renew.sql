-- Holds on to a claim. $1 catalog_id bigint, $2 key text, $3 lease seconds double precision. Primary key.
update idempotency_key set claimed_until = clock_timestamp() + make_interval(secs => $3)
where catalog_id = $1 and key = $2 and status = 0
