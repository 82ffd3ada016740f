-- Takes the oldest conversion that this server may do. $1 server_id uuid, $2 seconds of the lease double precision.
-- conversion_open; rows that another server is just taking are skipped. A private one is only taken by its own server.
with due as (
  select conversion_id from conversion
  where state <> 'finished' and is_background
    and case when state = 'waiting' then not is_private or (server_id = $1 and leased_until > clock_timestamp())
             else not is_private and leased_until <= clock_timestamp() end
  order by created_at
  limit 1
  for update skip locked
)
update conversion c
set state = 'running', server_id = $1, fence = c.fence + 1, attempts = c.attempts + 1,
    leased_until = clock_timestamp() + make_interval(secs => $2),
    started_at = coalesce(c.started_at, clock_timestamp())
from due
where c.conversion_id = due.conversion_id
returning c.conversion_id, c.fence, c.attempts, c.actor, c.request_id, c.source, c.request::text as request, c.is_private
