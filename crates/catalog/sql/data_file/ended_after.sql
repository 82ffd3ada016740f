-- Files of a table that ended after a snapshot.
-- $1 catalog_id, $2 table_id, $3 snapshot. Run by COPY: the numbers are put into the text. Index: data_file_ended.
select f.data_file_id, f.end_snapshot
from data_file f
where f.catalog_id = $1 and f.table_id = $2 and f.end_snapshot > $3
