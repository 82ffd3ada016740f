-- A page of what a cleanup would claim, in its order. $1 catalog_id bigint, $2 minimum age seconds double precision, $3 limit
-- bigint, $4 not tried since timestamptz; of the last row of the page before, both null for the first page: $5 when it was
-- last tried timestamptz, and $6 its removal_id bigint. Index file_removal_queue: those that were never tried, then the
-- others.
(select removal_id, path, kind = 'delete' as is_vector, reason = 'compaction_staging' as is_staged, last_attempt_at
 from file_removal
 where catalog_id = $1 and settled_at is null and last_attempt_at is null
   and $5::timestamptz is null and removal_id > coalesce($6::bigint, 0)
   and scheduled_at <= clock_timestamp() - make_interval(secs => $2)
   and (claimed_until is null or claimed_until < clock_timestamp())
 order by last_attempt_at nulls first, removal_id
 limit $3)
union all
(select removal_id, path, kind = 'delete', reason = 'compaction_staging', last_attempt_at
 from file_removal
 where catalog_id = $1 and settled_at is null and last_attempt_at < $4::timestamptz
   and (last_attempt_at, removal_id) > (coalesce($5::timestamptz, '-infinity'), case when $5 is null then 0 else $6::bigint end)
   and scheduled_at <= clock_timestamp() - make_interval(secs => $2)
   and (claimed_until is null or claimed_until < clock_timestamp())
 order by last_attempt_at nulls first, removal_id
 limit $3)
order by last_attempt_at nulls first, removal_id
limit $3
