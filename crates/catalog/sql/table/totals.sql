-- Gross totals of a table at head. $1 catalog_id bigint, $2 table_id bigint. Primary key.
select record_count, file_count, file_size_bytes from table_counter where catalog_id = $1 and table_id = $2
