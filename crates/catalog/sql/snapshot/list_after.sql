-- Retained snapshots above a cursor, ascending, with their changes. $1 catalog_id bigint, $2 cursor bigint, $3 limit
-- bigint. Primary keys of snapshot and snapshot_change.
select s.snapshot_id, s.snapshot_time, s.schema_version, s.author, s.message, c.changes
from snapshot s
cross join lateral (
  select json_agg(json_build_object('kind', kind, 'object_id', object_id) order by ordinal)::text as changes
  from snapshot_change
  where catalog_id = $1 and snapshot_id = s.snapshot_id) c
where s.catalog_id = $1 and s.snapshot_id > $2
  and s.snapshot_id >= (select earliest_snapshot from catalog where catalog_id = $1)
order by s.snapshot_id
limit $3
