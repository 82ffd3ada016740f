-- Small live files of some partitions of a table that nobody rewrites at the moment and that are not put off, smallest
-- first.
-- $1 catalog_id bigint, $2 table_id bigint, $3 target bytes bigint, $4 specs bigint[] (0: none), $5 tuples uuid[],
-- $6 files at most bigint. Indexes data_file_live, delete_file_one_live, primary keys of compaction_claim and
-- compaction_failure.
select f.data_file_id, f.begin_snapshot, f.path, f.record_count, f.file_size_bytes, f.footer_size, f.row_id_start,
       f.spec_id, f.partition_values, f.explicit_row_ids, d.delete_file_id, d.path as vector_path, d.delete_count,
       d.file_size_bytes as vector_size_bytes
from data_file f
left join delete_file d on d.catalog_id = $1 and d.data_file_id = f.data_file_id and d.end_snapshot is null
where f.catalog_id = $1 and f.table_id = $2 and f.end_snapshot is null and f.file_size_bytes < $3
  and (coalesce(f.spec_id, 0), md5(coalesce(f.partition_values::text, ''))::uuid) in (
    select * from unnest($4::bigint[], $5::uuid[]))
  and not exists (
    select from compaction_claim c
    where c.catalog_id = $1 and c.data_file_id = f.data_file_id and c.claimed_until > clock_timestamp())
  and not exists (
    select from compaction_failure w
    where w.catalog_id = $1 and w.data_file_id = f.data_file_id and w.next_attempt_at > clock_timestamp())
order by f.file_size_bytes, f.row_id_start
limit $6
