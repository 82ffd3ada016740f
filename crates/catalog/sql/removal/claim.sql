-- Claims the next queued paths. $1 catalog_id bigint, $2 claimant uuid, $3 lease seconds double precision, $4 minimum age
-- seconds double precision, $5 limit bigint, $6 not tried since timestamptz (rows that this sweep has tried already wait
-- for the next). Index file_removal_queue: never tried first, then those tried longest ago, so that a path that cannot
-- go does not stand in the way of the others. Changes no indexed column; whoever gives a claim back or settles it says when
-- it was tried.
with due as (
  select removal_id from file_removal
  where catalog_id = $1 and settled_at is null
    and (last_attempt_at is null or last_attempt_at < $6)
    and scheduled_at <= clock_timestamp() - make_interval(secs => $4)
    and (claimed_until is null or claimed_until < clock_timestamp())
  order by last_attempt_at nulls first, removal_id
  limit $5
  for update skip locked
)
update file_removal r
set claimed_by = $2, claimed_until = clock_timestamp() + make_interval(secs => $3), attempts = r.attempts + 1
from due
where r.removal_id = due.removal_id
returning r.removal_id, r.path, r.kind = 'delete' as is_vector,
          r.reason = 'compaction_staging' as is_staged
