-- Live columns and partition spec of tables whose schema is not cached. $1 catalog_id bigint, $2 table ids bigint[].
-- Indexes table_column_live_ordinal, partition_spec_one_live. One row a column.
select c.table_id, c.field_id, c.type::text as type, c.type_params::text as type_params, p.spec_id,
       (select count(*) from partition_spec_field f
        where f.catalog_id = $1 and f.table_id = c.table_id and f.spec_id = p.spec_id) as arity
from unnest($2::bigint[]) as w(table_id)
join table_column c on c.catalog_id = $1 and c.table_id = w.table_id and c.end_snapshot is null
left join partition_spec p on p.catalog_id = $1 and p.table_id = c.table_id and p.end_snapshot is null
