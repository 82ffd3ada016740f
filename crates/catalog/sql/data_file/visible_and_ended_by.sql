-- Files that were visible at a snapshot and had ended by a later one.
-- $1 catalog_id, $2 table_id, $3 snapshot, $4 later snapshot. Run by COPY: the numbers are put into the text.
-- Index: data_file_ended.
select f.data_file_id
from data_file f
where f.catalog_id = $1 and f.table_id = $2 and f.end_snapshot > $3 and f.end_snapshot <= $4 and f.begin_snapshot <= $3
