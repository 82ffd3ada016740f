-- Gives claims back, with why the path stays: it is tried again after all others. $1 claimant uuid, $2 removal ids bigint[],
-- $3 errors text[]. Primary key, as in settle.sql.
update file_removal r
set claimed_by = null, claimed_until = null, last_attempt_at = clock_timestamp(), last_error = w.error
from unnest($2::bigint[], $3::text[]) as w(removal_id, error)
where r.removal_id = any($2::bigint[]) and r.removal_id = w.removal_id and r.claimed_by = $1
  and coalesce(r.settled_at, 'infinity') = 'infinity'
