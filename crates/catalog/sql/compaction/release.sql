-- Ends the claims of a group, and leaves its staged output, if any is still queued, to the cleanup. $1 claimant uuid.
-- Index compaction_claim_by_holder; the ticket by its primary key. $2 removal_id bigint or null.
with claims as (
  delete from compaction_claim where claimed_by = $1
)
update file_removal set claimed_by = null, claimed_until = null
where removal_id = $2 and claimed_by = $1 and coalesce(settled_at, 'infinity') = 'infinity'
