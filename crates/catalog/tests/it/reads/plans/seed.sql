insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select 1, s, clock_timestamp(), 3 from generate_series(4, 100) s;
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, end_snapshot, path, record_count,
                       file_size_bytes, row_id_start, stats_state)
select 1, i, case when i % 100 = 41 then 3 else 1 + i % 2 end, 4 + i * 90 / 200000, case when i % 20 < 2 then 6 + i * 90 / 200000 end,
       's3://lake/demo/' || i || '.parquet', 10, 100, i * 10, 'provided'
from generate_series(1, 200000) i;
insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                             lower_bounds, upper_bounds)
select 1, i, '{1}', '{10}', '{0}', '{null}', '{64}', array['\x00'::bytea], array['\x01'::bytea]
from generate_series(1, 200000) i;
insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, end_snapshot, path,
                         delete_count, file_size_bytes)
select 1, 1000000 + i, 1 + i % 50, i, 4 + i * 90 / 100000, case when i % 3 = 0 then 5 + i * 90 / 100000 end, 'p', 1, 1
from generate_series(1, 100000) i;
update catalog set head_snapshot = 100 where catalog_id = 1;
analyze data_file, file_statistics, delete_file;
