-- Gives a claim back, after work that failed. $1 catalog_id bigint, $2 key text. Primary key.
delete from idempotency_key where catalog_id = $1 and key = $2 and status = 0
