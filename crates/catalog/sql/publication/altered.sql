-- Whether a table was altered in a window. $1 catalog_id bigint, $2 table_id bigint, $3 after (exclusive) bigint, $4 upto
-- (inclusive) bigint. Index: snapshot_change_by_object.
select exists (
  select 1 from snapshot_change
  where catalog_id = $1 and object_id = $2 and kind = 'table_altered' and snapshot_id > $3 and snapshot_id <= $4
)
