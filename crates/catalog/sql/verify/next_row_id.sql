-- Tables whose row-id allocator lags behind their positional files. $1 catalog_id bigint. Reads data_file once. One row:
-- violations, samples.
with violation as materialized (
  select format('table %s would next give row id %s, its files hold row ids up to %s', f.table_id,
                coalesce(k.next_row_id::text, 'nothing'), f.taken - 1) as detail
  from (
    select table_id, max(row_id_start + least(record_count, 9223372036854775807 - greatest(row_id_start, 0))) as taken from data_file
    where catalog_id = $1 and not explicit_row_ids group by table_id) f
  left join table_counter k on k.catalog_id = $1 and k.table_id = f.table_id
  where k.next_row_id is null or k.next_row_id < f.taken
)
select (select count(*) from violation), array(select detail from violation limit 20)
