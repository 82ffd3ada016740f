-- The fields of every retained spec of a table. $1 catalog_id bigint, $2 table_id bigint. Primary key.
select spec_id, source_field_id, transform::text, transform_param from partition_spec_field
where catalog_id = $1 and table_id = $2
order by spec_id, key_index
