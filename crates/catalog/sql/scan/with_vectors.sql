-- Adds to each file the vector that was visible at the snapshot. {files} stands for the statement that lists them.
-- $1 catalog_id, $4 snapshot. Run by COPY: the numbers are put into the text.
-- Index: delete_file_by_data_file.
select f.*, d.*
from ({files}) f
left join lateral (
  select d.delete_file_id, d.data_file_id as vector_data_file_id, d.path as vector_path, d.delete_count,
         d.file_size_bytes as vector_size_bytes, d.begin_snapshot as vector_begin
  from delete_file d
  where d.catalog_id = $1 and d.data_file_id = f.data_file_id and d.begin_snapshot <= $4
    and (d.end_snapshot is null or d.end_snapshot > $4)
  limit 1
) d on true
order by f.row_id_start, f.data_file_id
