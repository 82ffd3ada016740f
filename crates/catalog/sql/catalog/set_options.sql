-- Changes the options of a catalog. $1 catalog_id bigint, $2 whether to set the retention boolean, $3 retention bigint
-- (null: off), $4 consumer_floor boolean (null: as it is). Primary key. Returns the options after the change.
update catalog
set snapshot_retention_seconds = case when $2 then $3 else snapshot_retention_seconds end,
    consumer_floor = coalesce($4, consumer_floor)
where catalog_id = $1
returning snapshot_retention_seconds, consumer_floor, earliest_snapshot as earliest_snapshot_id
