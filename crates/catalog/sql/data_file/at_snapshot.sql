-- Files of a table that were visible at a snapshot: begun by then, and not ended, or ended after it.
-- $1 catalog_id, $2 table_id, $3 snapshot. Run by COPY: the numbers are put into the text.
-- Indexes: data_file_live in order for the files without an end, merged with the ended ones by data_file_ended. Each part
-- is ordered by itself, or Postgres would sort them all.
select f.*
from (
  (select f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start, f.stats_state,
       f.begin_snapshot, f.spec_id, f.partition_values, f.explicit_row_ids
  from data_file f
  where f.catalog_id = $1 and f.table_id = $2 and f.end_snapshot is null and f.begin_snapshot <= $3
  order by f.row_id_start, f.data_file_id)
  union all
  (select f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start, f.stats_state,
       f.begin_snapshot, f.spec_id, f.partition_values, f.explicit_row_ids
  from data_file f
  where f.catalog_id = $1 and f.table_id = $2 and f.end_snapshot > $3 and f.begin_snapshot <= $3
  order by f.row_id_start, f.data_file_id)
) f
order by f.row_id_start, f.data_file_id
