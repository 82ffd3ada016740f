-- New versions of columns. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint, $4 field ids bigint[],
-- $5 names text[], $6 types text[], $7 type_params text[], $8 nullable bool[], $9 ordinals int[].
insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, type_params, nullable, ordinal)
select $1, $2, w.field_id, $3, w.name, w.type::column_type, w.type_params::json, w.nullable, w.ordinal
from unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::bool[], $9::int[])
  as w(field_id, name, type, type_params, nullable, ordinal)
