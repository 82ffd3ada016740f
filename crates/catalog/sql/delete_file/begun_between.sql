-- Vectors registered for a table in a window of snapshots.
-- $1 catalog_id, $2 table_id, $3 from (exclusive), $4 to (inclusive). Run by COPY: the numbers are put into the text.
-- Index: delete_file_by_begin, in order, no sort.
select d.delete_file_id, d.data_file_id, d.path, d.delete_count, d.file_size_bytes, d.begin_snapshot
from delete_file d
where d.catalog_id = $1 and d.table_id = $2 and d.begin_snapshot > $3 and d.begin_snapshot <= $4
order by d.begin_snapshot, d.delete_file_id
