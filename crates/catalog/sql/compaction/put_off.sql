-- Ends the work on a group that cannot be rewritten now: nobody plans its inputs for a while, and its staged output, if
-- any is still queued, is left to the cleanup. $1 claimant uuid, $2 removal_id bigint or null, $3 seconds double
-- precision. Index compaction_claim_by_holder; the ticket by its primary key.
with claims as (
  update compaction_claim set claimed_until = clock_timestamp() + make_interval(secs => $3) where claimed_by = $1
)
update file_removal set claimed_by = null, claimed_until = null
where removal_id = $2 and claimed_by = $1 and settled_at is null
