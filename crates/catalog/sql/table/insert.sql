-- A new table: identity, name, counters, columns. Under the commit lock.
-- $1 catalog_id bigint, $2 table_id bigint, $3 table_uuid uuid, $4 snapshot bigint, $5 namespace_id bigint,
-- $6 namespace text, $7 name text, $8 next_field_id bigint
-- columns: $9 field ids bigint[], $10 names text[], $11 types text[], $12 type_params text[], $13 nullable bool[],
--          $14 ordinals int[]
with identity as (
  insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace, last_name,
                              next_field_id)
  values ($1, $2, $3, $4, $4, $6, $7, $8)
), version as (
  insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name) values ($1, $2, $4, $5, $7)
), counter as (
  insert into table_counter (catalog_id, table_id) values ($1, $2)
)
insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, type_params, nullable, ordinal)
select $1, $2, w.field_id, $4, w.name, w.type::column_type, w.type_params::json, w.nullable, w.ordinal
from unnest($9::bigint[], $10::text[], $11::text[], $12::text[], $13::bool[], $14::int[])
  as w(field_id, name, type, type_params, nullable, ordinal)
