-- Ends the live partition spec of a table. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint. Index
-- partition_spec_one_live.
update partition_spec set end_snapshot = $3 where catalog_id = $1 and table_id = $2 and end_snapshot is null
