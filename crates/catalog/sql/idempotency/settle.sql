-- Answers a claim. $1 catalog_id bigint, $2 key text, $3 status smallint, $4 response text. Primary key.
update idempotency_key set status = $3, response = $4::json, claimed_until = null
where catalog_id = $1 and key = $2 and status = 0
