-- Deletion vectors that cannot be: two live ones for a file, one that shrank, one with more rows than its file.
-- $1 catalog_id bigint. Reads delete_file once, data_file by primary key. One row: violations, samples.
with vector as materialized (
  select d.*, lag(d.delete_count) over chain as before, lag(d.delete_file_id) over chain as before_id
  from delete_file d
  where d.catalog_id = $1
  window chain as (partition by d.data_file_id order by d.begin_snapshot, d.delete_file_id)
), violation as materialized (
  select format('data file %s has %s live deletion vectors: %s', data_file_id, count(*),
                string_agg(delete_file_id::text, ', ' order by delete_file_id)) as detail
  from vector where end_snapshot is null group by data_file_id having count(*) > 1
  union all
  select format('deletion vector %s of data file %s deletes %s rows, the one before it (%s) deleted %s', delete_file_id,
                data_file_id, delete_count, before_id, before)
  from vector where delete_count < before
  union all
  select format('deletion vector %s deletes %s rows of data file %s, which has %s', v.delete_file_id, v.delete_count,
                v.data_file_id, f.record_count)
  from vector v join data_file f on f.catalog_id = $1 and f.data_file_id = v.data_file_id
  where v.delete_count > f.record_count
)
select (select count(*) from violation), array(select detail from violation limit 20)
