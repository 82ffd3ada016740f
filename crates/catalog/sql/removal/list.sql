-- A page of the ledger, newest first. $1 catalog_id bigint, $2 before removal_id bigint or null, $3 state text or null,
-- $4 limit bigint, $5 seconds that a claim lasts double precision. Index file_removal_by_catalog. A claim that is under way,
-- or whose holder was killed, is an attempt of when it was made, or last renewed.
select removal_id, path, kind::text as kind, reason::text as reason, scheduled_at, settled_at, attempts,
       case when attempts > 0 then greatest(last_attempt_at, claimed_until - make_interval(secs => $5))
            else last_attempt_at end as last_attempt_at,
       last_error, state
from (
  select r.*,
         case when outcome in ('deleted') then 'removed'
              when outcome = 'absent' then 'missing'
              when outcome = 'registered' then 'registered'
              when last_error like 'still referenced%' then 'still_referenced'
              else 'queued' end as state
  from file_removal r
  where catalog_id = $1 and ($2::bigint is null or removal_id < $2)) r
where outcome is distinct from 'registered' and ($3::text is null or state = $3)
order by removal_id desc
limit $4
