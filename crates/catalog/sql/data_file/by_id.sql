-- Files that a filter kept. They were visible at the snapshot that is read, which never changes.
-- $1 catalog_id, $2 table_id, $3 ids. Run by COPY: the numbers are put into the text.
-- Index: the primary key.
select f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start, f.stats_state,
       f.begin_snapshot, f.spec_id, f.partition_values, f.explicit_row_ids
from data_file f
where f.catalog_id = $1 and f.data_file_id = any($3) and f.table_id = $2
order by f.row_id_start, f.data_file_id
