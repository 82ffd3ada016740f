-- Ends the live name of a table. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint. Index
-- table_one_live_name.
update table_version set end_snapshot = $3 where catalog_id = $1 and table_id = $2 and end_snapshot is null
