-- Snapshots in a window that compacted a table.
-- $1 catalog_id bigint, $2 table_id bigint, $3 from (exclusive) bigint, $4 to (inclusive) bigint
-- Index: snapshot_change_by_object.
select distinct snapshot_id
from snapshot_change
where catalog_id = $1 and object_id = $2 and kind = 'table_compacted' and snapshot_id > $3 and snapshot_id <= $4
order by snapshot_id
