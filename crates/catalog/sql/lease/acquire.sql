-- Takes or prolongs a lease. $1 catalog_id bigint, $2 task text, $3 holder uuid, $4 seconds double precision.
-- Primary key; a row that somebody else is just taking is skipped, not waited for. The fence, or no row.
with due as (
  select catalog_id, task from lease
  where catalog_id = $1 and task = $2 and (holder = $3 or expires_at <= clock_timestamp())
  for update skip locked
)
update lease l
set fence = l.fence + case when l.holder = $3 and l.expires_at > clock_timestamp() then 0 else 1 end,
    holder = $3,
    expires_at = clock_timestamp() + make_interval(secs => $4)
from due
where l.catalog_id = due.catalog_id and l.task = due.task
returning l.fence
