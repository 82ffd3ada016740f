-- Gives claims back whose files nobody has asked for: they are due at once, and it was no attempt. $1 catalog_id bigint,
-- $2 claimant uuid, $3 ids bigint[]. Primary key.
update hydration h
set next_attempt_at = clock_timestamp(), attempts = greatest(h.attempts - 1, 0), claimed_by = null
from unnest($3::bigint[]) as w(data_file_id)
where h.catalog_id = $1 and h.data_file_id = w.data_file_id and h.claimed_by = $2
