-- Prolongs the claims of a group and of its staged output. $1 claimant uuid, $2 lease seconds double precision,
-- $3 removal_id bigint or null. Index compaction_claim_by_holder, primary key of file_removal. One row: how many claims on
-- inputs are still the claimant's, and whether the output is.
with claims as (
  update compaction_claim set claimed_until = clock_timestamp() + make_interval(secs => $2) where claimed_by = $1
  returning 1
), ticket as (
  update file_removal set claimed_until = clock_timestamp() + make_interval(secs => $2)
  where removal_id = $3 and claimed_by = $1 and coalesce(settled_at, 'infinity') = 'infinity'
  returning 1
)
select (select count(*) from claims) as inputs, exists (select from ticket) as output
