-- Registers the vectors of a group. $1 catalog_id bigint; $2 ids, $3 tables, $4 data files, $5 first snapshots, $6 last
-- snapshots (null: live) as bigint[]; $7 paths text[]; $8 delete counts, $9 sizes as bigint[].
insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, end_snapshot, path,
                         delete_count, file_size_bytes)
select $1, w.*
from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[])
  as w(delete_file_id, table_id, data_file_id, begin_snapshot, end_snapshot, path, delete_count, file_size_bytes)
