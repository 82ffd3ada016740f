-- Ends the live versions of columns. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint, $4 field ids bigint[]
-- (null: all). Index table_column_live_ordinal.
update table_column set end_snapshot = $3
where catalog_id = $1 and table_id = $2 and end_snapshot is null and ($4::bigint[] is null or field_id = any($4))
