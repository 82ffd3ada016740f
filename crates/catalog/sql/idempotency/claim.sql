-- Claims a key for work that is no single transaction. $1 catalog_id bigint, $2 key text, $3 request_hash bytea, $4 lease
-- seconds double precision. Primary key. A row when the key was free; status 0 says that there is no answer yet.
insert into idempotency_key (catalog_id, key, request_hash, status, claimed_until)
values ($1, $2, $3, 0, clock_timestamp() + make_interval(secs => $4))
on conflict (catalog_id, key) do nothing
returning 1::bigint
