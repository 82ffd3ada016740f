-- Conversions by state, and the age of the oldest that waits. conversion_open. One row.
select count(*) filter (where state = 'waiting') as waiting, count(*) filter (where state = 'running') as running,
       coalesce(extract(epoch from clock_timestamp() - min(created_at) filter (where state = 'waiting')), 0)::float8
         as oldest_waiting_seconds
from conversion
where state <> 'finished'
