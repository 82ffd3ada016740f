-- Puts files off that the store could not serve. $1 catalog_id bigint, $2 claimant uuid, $3 ids bigint[], $4 delays in
-- seconds double precision[], $5 errors text[]. Primary key.
update hydration h
set next_attempt_at = clock_timestamp() + make_interval(secs => w.delay), last_error = w.error, claimed_by = null
from unnest($3::bigint[], $4::double precision[], $5::text[]) as w(data_file_id, delay, error)
where h.catalog_id = $1 and h.data_file_id = w.data_file_id and h.claimed_by = $2
