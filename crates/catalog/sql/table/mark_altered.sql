-- What an alter leaves on the identity. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint, $4 name text,
-- $5 next_field_id bigint, $6 next_spec_id bigint, $7 next_sort_id bigint. Primary key.
update table_identity
set ddl_snapshot = $3, last_name = $4, next_field_id = $5, next_spec_id = $6, next_sort_id = $7
where catalog_id = $1 and table_id = $2
