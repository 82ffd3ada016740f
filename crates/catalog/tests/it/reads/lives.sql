insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select 1, s, clock_timestamp(), 3 from generate_series(4, 9) s;
insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot) values (1, 1, 1, 3);
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, end_snapshot, path, record_count,
                       file_size_bytes, footer_size, row_id_start, spec_id, partition_values, stats_state,
                       explicit_row_ids)
values (1, 1, 1, 4, null, E's3://lake/demo/"q" \\ \u00e9\t.parquet', 10, 9223372036854775807, 7, 0, null, null, 'provided', false),
       (1, 2, 1, 4, 7, 's3://lake/demo/2.parquet', 10, 100, null, 10, 1, array['a', null, 'null', ''], 'pending', false),
       (1, 3, 1, 5, null, 's3://lake/demo/3.parquet', 10, 100, null, 20, null, null, 'failed', false),
       (1, 4, 1, 7, null, 's3://lake/demo/4.parquet', 9, 100, null, 10, 1, array['a', null, 'null', ''], 'provided', true),
       (1, 5, 1, 8, 9, 's3://lake/demo/5.parquet', 10, 100, null, 30, null, null, 'provided', false),
       (1, 6, 1, 4, null, 's3://lake/demo/6.parquet', 0, 100, null, 10, null, null, 'provided', false),
       (1, 7, 2, 4, null, 's3://lake/demo/other.parquet', 1, 100, null, 0, null, null, 'provided', false);
insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, end_snapshot, path,
                         delete_count, file_size_bytes)
values (1, 20, 1, 1, 6, 8, 's3://lake/demo/20.puffin', 1, 50),
       (1, 21, 1, 1, 8, null, 's3://lake/demo/21.puffin', 2, 51),
       (1, 22, 1, 2, 5, 7, 's3://lake/demo/22.puffin', 1, 52);
insert into snapshot_change (catalog_id, snapshot_id, ordinal, kind, object_id)
values (1, 4, 1, 'table_inserted_into', 1), (1, 5, 1, 'table_inserted_into', 1), (1, 5, 2, 'table_deleted_from', 1),
       (1, 6, 1, 'table_deleted_from', 1), (1, 7, 1, 'table_compacted', 1), (1, 8, 1, 'table_inserted_into', 1),
       (1, 8, 2, 'table_deleted_from', 1), (1, 9, 1, 'table_compacted', 2);
insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                             lower_bounds, upper_bounds)
values (1, 1, '{1,2,99}', '{10,10,10}', '{0,null,0}', '{null,null,null}', '{64,null,1}',
        array['\x0000000000000000'::bytea, null, null], array['\x09000000'::bytea, null, null]);
update catalog set head_snapshot = 9, next_file_id = 30 where catalog_id = 1;
