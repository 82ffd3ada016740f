-- Vectors that a table got in a window of snapshots, each with its file and with the vector that it replaced. A vector
-- that came with its file is part of the append. $1 catalog_id bigint, $2 table_id bigint, $3 from (exclusive) bigint,
-- $4 to (inclusive) bigint, $5 how many bigint. Indexes: delete_file_by_begin, in order; delete_file_by_data_file; primary
-- key of data_file. The replaced vector is retained: it ends after the publication's offset, which expiry does not pass.
select d.delete_file_id, d.begin_snapshot, d.path as vector_path, d.delete_count,
       b.path as before_path, b.delete_count as before_count,
       f.data_file_id, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start, f.explicit_row_ids
from delete_file d
join data_file f on f.catalog_id = d.catalog_id and f.data_file_id = d.data_file_id
left join delete_file b on b.catalog_id = d.catalog_id and b.data_file_id = d.data_file_id
  and b.end_snapshot = d.begin_snapshot
where d.catalog_id = $1 and d.table_id = $2 and d.begin_snapshot > $3 and d.begin_snapshot <= $4
  and f.begin_snapshot < d.begin_snapshot
order by d.begin_snapshot, d.data_file_id, d.delete_file_id
limit $5
