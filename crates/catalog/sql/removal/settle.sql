-- Settles claims that are still ours. $1 claimant uuid, $2 removal ids bigint[], $3 outcomes text[]. Primary key.
-- A row a settled claim.
update file_removal r
set settled_at = clock_timestamp(), outcome = w.outcome::removal_outcome, claimed_by = null, claimed_until = null,
    last_error = null
from unnest($2::bigint[], $3::text[]) as w(removal_id, outcome)
where r.removal_id = w.removal_id and r.claimed_by = $1 and r.settled_at is null
returning r.removal_id
