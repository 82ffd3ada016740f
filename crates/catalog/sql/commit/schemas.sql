-- Live columns and partition spec of tables whose schema is not cached. $1 catalog_id bigint, $2 table ids bigint[].
-- Indexes table_column_live_ordinal, partition_spec_one_live. One row a column. Subqueries keep their place in the join, as
-- in load.sql.
select c.table_id, c.field_id, c.type::text as type, c.type_params::text as type_params, p.spec_id,
       (select count(*) from partition_spec_field f
        where f.catalog_id = $1 and f.table_id = c.table_id and f.spec_id = p.spec_id) as arity
from (select * from unnest($2::bigint[]) limit cardinality($2)) as w(table_id)
cross join lateral (
  select * from table_column where catalog_id = $1 and table_id = w.table_id and end_snapshot is null offset 0) c
left join lateral (
  select spec_id from partition_spec where catalog_id = $1 and table_id = w.table_id and end_snapshot is null
  limit 1) p on true
