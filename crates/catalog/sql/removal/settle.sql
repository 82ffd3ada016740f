-- Settles claims that are still ours. $1 claimant uuid, $2 removal ids bigint[], $3 outcome text. A row a settled claim.
-- Primary key, and only that: the queue grows and empties faster than the planner's statistics follow, and one that takes
-- it for empty would go through all of it for every id. Hence the spelling of `settled_at is null`, which no partial index
-- matches.
update file_removal
set settled_at = clock_timestamp(), outcome = $3::removal_outcome, last_attempt_at = clock_timestamp(), claimed_by = null,
    claimed_until = null, last_error = null
where removal_id = any($2::bigint[]) and claimed_by = $1 and coalesce(settled_at, 'infinity') = 'infinity'
returning removal_id
