-- Stores the answers of a group's keyed requests. $1 catalog_id bigint; $2 keys text[], $3 request hashes bytea[],
-- $4 responses text[], $5 snapshot ids bigint[]. A statement of its own: starting an insert costs, and few groups carry
-- keys.
insert into idempotency_key (catalog_id, key, request_hash, status, response, snapshot_id)
select $1, w.key, w.request_hash, 200, w.response::json, w.snapshot_id
from unnest($2::text[], $3::bytea[], $4::text[], $5::bigint[]) as w(key, request_hash, response, snapshot_id)
