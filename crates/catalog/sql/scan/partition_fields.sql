-- The partition fields of every spec that the table has had: files keep the spec they were written under.
-- $1 catalog_id bigint, $2 table_id bigint
-- Index: the primary key.
select spec_id, source_field_id, transform::text as transform, transform_param
from partition_spec_field
where catalog_id = $1 and table_id = $2
order by spec_id, key_index
