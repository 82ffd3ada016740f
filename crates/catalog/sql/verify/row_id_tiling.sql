-- Positional files whose row ids overlap those of an earlier one of their table, or start below zero. $1 catalog_id
-- bigint. Reads data_file in the order of data_file_by_begin, in which row ids are given: where each file begins past the
-- one before it, none overlap. Only otherwise are they sorted by their row ids. Ends past the largest bigint count as that.
-- One row: violations, samples.
with arrival as (
  select f.row_id_start,
         lag(f.row_id_start + least(f.record_count, 9223372036854775807 - greatest(f.row_id_start, 0))) over (
           partition by f.table_id order by f.begin_snapshot, f.row_id_start, f.data_file_id) as taken
  from data_file f
  where f.catalog_id = $1 and not f.explicit_row_ids and f.record_count > 0
), disorder as materialized (
  select from arrival where row_id_start < 0 or row_id_start < taken limit 1
), file as (
  select f.table_id, f.data_file_id, f.row_id_start, f.record_count,
         max(f.row_id_start + least(f.record_count, 9223372036854775807 - greatest(f.row_id_start, 0))) over (
           partition by f.table_id order by f.row_id_start, f.data_file_id
           rows between unbounded preceding and 1 preceding) as taken
  from data_file f
  where f.catalog_id = $1 and not f.explicit_row_ids and f.record_count > 0 and exists (select from disorder)
), violation as materialized (
  select format('data file %s of table %s has row ids [%s, %s), %s', data_file_id, table_id, row_id_start,
                row_id_start::numeric + record_count,
                case when row_id_start < 0 then 'which start below zero'
                     else format('but row ids below %s are taken by files before it', taken) end) as detail
  from file where row_id_start < 0 or row_id_start < taken
)
select (select count(*) from violation), array(select detail from violation limit 20)
