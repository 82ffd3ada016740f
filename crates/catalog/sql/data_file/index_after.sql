-- Files of a table after a place in listing order, without those that had ended by a snapshot: what the scan index holds.
-- $1 catalog_id, $2 table_id, $3 begin_snapshot, $4 row_id_start, $5 data_file_id of the place, $6 snapshot.
-- Run by COPY: the numbers are put into the text. Index: data_file_by_begin, in order, no sort.
select f.data_file_id, f.begin_snapshot, f.row_id_start, f.spec_id, f.partition_values
from data_file f
where f.catalog_id = $1 and f.table_id = $2 and (f.begin_snapshot, f.row_id_start, f.data_file_id) > ($3, $4, $5)
  and (f.end_snapshot is null or f.end_snapshot > $6)
order by f.begin_snapshot, f.row_id_start, f.data_file_id
