-- Vectors of a table that were visible at a snapshot, at most $4.
-- $1 catalog_id, $2 table_id, $3 snapshot, $4 limit. Run by COPY: the numbers are put into the text.
-- Indexes: delete_file_live, delete_file_ended.
select * from (
  select d.delete_file_id, d.data_file_id, d.path, d.delete_count, d.file_size_bytes, d.begin_snapshot
  from delete_file d
  where d.catalog_id = $1 and d.table_id = $2 and d.end_snapshot is null and d.begin_snapshot <= $3
  union all
  select d.delete_file_id, d.data_file_id, d.path, d.delete_count, d.file_size_bytes, d.begin_snapshot
  from delete_file d
  where d.catalog_id = $1 and d.table_id = $2 and d.end_snapshot > $3 and d.begin_snapshot <= $3
) d
limit $4
