insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select 1, s, clock_timestamp(), 3 from generate_series(4, 203) s;
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, end_snapshot, path, record_count,
                       file_size_bytes, row_id_start, stats_state)
select 1, 1000 + i, 1, 4 + i / 100, case when i % 50 = 3 and 24 + i / 100 <= 203 then 24 + i / 100 end,
       's3://lake/demo/' || i || '.parquet', 10, 100, i * 10,
       case when i % 100 = 99 then 'pending' else 'provided' end::stats_state
from generate_series(0, 19999) i;
insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                             lower_bounds, upper_bounds)
select 1, 1000 + i, '{1,2}', '{10,10}', array[case when i % 7 = 0 then 1 else 0 end, 0], '{null,null}', '{64,64}',
       array[(select decode(string_agg(substr(h, n, 2), '' order by n desc), 'hex')
              from (select lpad(to_hex(i * 10), 16, '0') as h) x, generate_series(1, 15, 2) n),
             convert_to('user-' || lpad(i::text, 8, '0') || '-a', 'UTF8')],
       array[(select decode(string_agg(substr(h, n, 2), '' order by n desc), 'hex')
              from (select lpad(to_hex(i * 10 + 9), 16, '0') as h) x, generate_series(1, 15, 2) n),
             convert_to('user-' || lpad(i::text, 8, '0') || '-z', 'UTF8')]
from generate_series(0, 19999) i
where i % 100 <> 99;
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                       row_id_start, stats_state)
select 1, 50000 + i, 2, 50, 'other', 1, 1, i, 'pending' from generate_series(1, 100) i;
update catalog set head_snapshot = 203, next_file_id = 100000 where catalog_id = 1;
