-- What a cleanup would claim. $1 catalog_id bigint, $2 minimum age seconds double precision, $3 limit bigint.
-- Index file_removal_queue.
select removal_id, path, kind = 'delete' as is_vector, reason = 'compaction_staging' as is_staged
from file_removal
where catalog_id = $1 and settled_at is null
  and scheduled_at <= clock_timestamp() - make_interval(secs => $2)
  and (claimed_until is null or claimed_until < clock_timestamp())
order by last_attempt_at nulls first, removal_id
limit $3
