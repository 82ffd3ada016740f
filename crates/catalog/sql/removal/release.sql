-- Gives claims back, with why the path stays. $1 claimant uuid, $2 removal ids bigint[], $3 errors text[]. Primary key.
update file_removal r
set claimed_by = null, claimed_until = null, last_error = w.error
from unnest($2::bigint[], $3::text[]) as w(removal_id, error)
where r.removal_id = w.removal_id and r.claimed_by = $1 and r.settled_at is null
