-- The snapshot that a read means. $1 catalog_id bigint, $2 snapshot bigint, $3 at_timestamp timestamptz; at most one of
-- the two, neither means head. Primary keys; snapshot_by_time for a timestamp (times grow with ids).
-- One row; the found columns are null when no such snapshot is retained.
select c.head_snapshot, c.earliest_snapshot, c.earliest_snapshot_time, s.snapshot_id, s.snapshot_time
from catalog c
left join lateral (
  select snapshot_id, snapshot_time from snapshot
  where $3::timestamptz is null and catalog_id = c.catalog_id and snapshot_id = coalesce($2::bigint, c.head_snapshot)
  union all
  (select snapshot_id, snapshot_time from snapshot
   where $3::timestamptz is not null and catalog_id = c.catalog_id and snapshot_time <= $3::timestamptz
   order by snapshot_time desc, snapshot_id desc
   limit 1)
) s on true
where c.catalog_id = $1
