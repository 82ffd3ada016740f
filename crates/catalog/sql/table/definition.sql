-- Columns and specs of a table at a snapshot. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint.
-- Primary keys of the versioned tables. One row of JSON documents, null where there is nothing.
select
  (select json_agg(c order by c.ordinal) from (
     select field_id, name, type, type_params, nullable, ordinal from table_column
     where catalog_id = $1 and table_id = $2
       and begin_snapshot <= $3 and (end_snapshot is null or $3 < end_snapshot)) c)::text as columns,
  (select row_to_json(p) from (
     select spec_id,
            (select json_agg(f order by f.key_index) from (
               select key_index, source_field_id, transform, transform_param from partition_spec_field
               where catalog_id = $1 and table_id = $2 and spec_id = s.spec_id) f) as fields
     from partition_spec s
     where catalog_id = $1 and table_id = $2
       and begin_snapshot <= $3 and (end_snapshot is null or $3 < end_snapshot)) p)::text as partition_spec,
  (select row_to_json(p) from (
     select sort_id,
            (select json_agg(f order by f.key_index) from (
               select key_index, source_field_id, descending, nulls_first from sort_spec_field
               where catalog_id = $1 and table_id = $2 and sort_id = s.sort_id) f) as fields
     from sort_spec s
     where catalog_id = $1 and table_id = $2
       and begin_snapshot <= $3 and (end_snapshot is null or $3 < end_snapshot)) p)::text as sort_spec,
  i.next_field_id, i.next_spec_id, i.next_sort_id
from table_identity i
where i.catalog_id = $1 and i.table_id = $2
