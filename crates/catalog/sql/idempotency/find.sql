-- The stored answer for a key. $1 catalog_id bigint, $2 key text. Primary key. At most one row.
select key, request_hash, status, response::text as response, snapshot_id,
       claimed_until > clock_timestamp() as under_way
from idempotency_key
where catalog_id = $1 and key = $2
