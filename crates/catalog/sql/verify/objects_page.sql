-- A page of live files with their vectors, for comparing with the store. $1 catalog_id bigint, $2 after data_file_id
-- bigint, $3 limit bigint. Primary key of data_file, delete_file_one_live.
select f.data_file_id, f.table_id, f.begin_snapshot, f.path, f.record_count, f.file_size_bytes, f.footer_size,
       f.missing_field_ids, f.stats_state = 'pending' as is_pending, f.explicit_row_ids, i.next_field_id,
       d.delete_file_id, d.path as vector_path, d.delete_count, d.file_size_bytes as vector_size_bytes
from data_file f
join table_identity i on i.catalog_id = f.catalog_id and i.table_id = f.table_id and i.dropped_snapshot is null
left join delete_file d
  on d.catalog_id = f.catalog_id and d.data_file_id = f.data_file_id and d.end_snapshot is null
where f.catalog_id = $1 and f.data_file_id > $2 and f.end_snapshot is null
order by f.data_file_id limit $3
