-- The live vectors of a table, ordered by data file.
-- $1 catalog_id, $2 table_id. Run by COPY: the numbers are put into the text.
-- Index: delete_file_live, in order, no sort.
select d.delete_file_id, d.data_file_id, d.path, d.delete_count, d.file_size_bytes, d.begin_snapshot
from delete_file d
where d.catalog_id = $1 and d.table_id = $2 and d.end_snapshot is null
order by d.data_file_id
