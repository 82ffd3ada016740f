-- Files that a table got in a window of snapshots, without what compaction wrote, each with the vector that it came with.
-- $1 catalog_id bigint, $2 table_id bigint, $3 from (exclusive) bigint, $4 to (inclusive) bigint, $5 snapshots that
-- compacted the table bigint[], $6 how many bigint. Indexes: data_file_by_begin, in order; delete_file_by_data_file.
select f.data_file_id, f.begin_snapshot, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start,
       f.explicit_row_ids, d.path as vector_path, d.delete_count
from data_file f
left join delete_file d on d.catalog_id = f.catalog_id and d.data_file_id = f.data_file_id
  and d.begin_snapshot <= f.begin_snapshot and (d.end_snapshot is null or d.end_snapshot > f.begin_snapshot)
where f.catalog_id = $1 and f.table_id = $2 and f.begin_snapshot > $3 and f.begin_snapshot <= $4
  and f.begin_snapshot <> all ($5)
order by f.begin_snapshot, f.row_id_start, f.data_file_id
limit $6
