-- Stores an answer. $1 catalog_id bigint, $2 key text, $3 request_hash bytea, $4 status smallint, $5 response text,
-- $6 snapshot_id bigint. Fails with 23505 when the key exists.
insert into idempotency_key (catalog_id, key, request_hash, status, response, snapshot_id)
values ($1, $2, $3, $4, $5::json, $6)
