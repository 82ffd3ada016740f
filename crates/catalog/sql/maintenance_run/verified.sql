-- What verifications found that ended after a moment, newest first. $1 timestamptz, $2 limit bigint.
-- Index maintenance_run_verified.
select c.name as catalog, r.finished_at, r.result::text as report
from maintenance_run r join catalog c using (catalog_id)
where r.task = 'verify' and r.result is not null and r.finished_at > $1
order by r.finished_at desc
limit $2
