-- Versioned rows that ended at or below the floor. $1 catalog_id bigint, $2 floor bigint. Indexes *_expiring. Specs that
-- files still follow stay, and so do the columns that such a spec names: looked up one by one, since few versions end and
-- files are many. One row: rows deleted.
with views as (
  delete from view where catalog_id = $1 and end_snapshot <= $2 returning 1
), versions as (
  delete from table_version where catalog_id = $1 and end_snapshot <= $2 returning 1
), orders as (
  delete from sort_spec where catalog_id = $1 and end_snapshot <= $2 returning 1
), unused as materialized (
  select s.table_id, s.spec_id from partition_spec s
  where s.catalog_id = $1 and s.end_snapshot <= $2
    and (select t.spec_id from partition_total t
         where t.catalog_id = $1 and t.table_id = s.table_id and t.spec_id = s.spec_id limit 1) is null
    and (select f.spec_id from data_file f
         where f.catalog_id = $1 and f.table_id = s.table_id and f.spec_id = s.spec_id limit 1) is null
), specs as (
  delete from partition_spec s using unused u
  where s.catalog_id = $1 and s.table_id = u.table_id and s.spec_id = u.spec_id returning 1
), columns as (
  delete from table_column c
  where c.catalog_id = $1 and c.end_snapshot <= $2
    and (select f.spec_id from partition_spec_field f
         where f.catalog_id = $1 and f.table_id = c.table_id and f.source_field_id = c.field_id
           and (f.table_id, f.spec_id) not in (select table_id, spec_id from unused) limit 1) is null
  returning 1
)
select (select count(*) from views) + (select count(*) from versions) + (select count(*) from orders)
       + (select count(*) from specs) + (select count(*) from columns) as rows,
       0::bigint as queued, 0::bigint as vectors_queued
