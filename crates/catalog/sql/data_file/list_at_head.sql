-- Files of a table at the newest snapshot of this transaction, in listing order.
-- $1 catalog_id, $2 table_id. Run by COPY: the numbers are put into the text.
-- Index: data_file_by_begin, in order, no sort.
select f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start, f.stats_state,
       f.begin_snapshot, f.spec_id, f.partition_values, f.explicit_row_ids
from data_file f
where f.catalog_id = $1 and f.table_id = $2 and f.end_snapshot is null
order by f.begin_snapshot, f.row_id_start, f.data_file_id
