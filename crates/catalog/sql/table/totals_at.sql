-- Gross totals of the files visible at a snapshot. $1 catalog_id bigint, $2 table_id bigint, $3 snapshot bigint. Index
-- data_file_by_begin; reads every file begun by then.
select coalesce(sum(record_count), 0)::bigint as record_count, count(*) as file_count,
       coalesce(sum(file_size_bytes), 0)::bigint as file_size_bytes
from data_file
where catalog_id = $1 and table_id = $2 and begin_snapshot <= $3 and (end_snapshot is null or $3 < end_snapshot)
