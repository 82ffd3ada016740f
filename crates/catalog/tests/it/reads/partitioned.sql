insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, nullable, ordinal)
values (1, 1, 3, 2, 'day', 'timestamp', true, 2);
insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot, end_snapshot) values (1, 1, 1, 2, 3), (1, 1, 2, 3, null);
insert into partition_spec_field (catalog_id, table_id, spec_id, key_index, source_field_id, transform, transform_param)
values (1, 1, 1, 0, 3, 'day', null), (1, 1, 2, 0, 1, 'bucket', 16), (1, 1, 2, 1, 3, 'identity', null);
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                       row_id_start, stats_state, spec_id, partition_values)
values (1, 1, 1, 3, 'a', 1, 1, 1, 'pending', 1, '{20454}'),
       (1, 2, 1, 3, 'b', 1, 1, 2, 'pending', 1, '{2026-01-02}'),
       (1, 3, 1, 3, 'c', 1, 1, 3, 'pending', 2, '{3,2026-01-02T00:00:00}'),
       (1, 4, 1, 3, 'd', 1, 1, 4, 'pending', 2, '{3,null}'),
       (1, 5, 1, 3, 'e', 1, 1, 5, 'pending', 2, '{4,2026-01-01 12:00:00}'),
       (1, 6, 1, 3, 'f', 1, 1, 6, 'pending', 2, '{4,who knows}'),
       (1, 7, 1, 3, 'g', 1, 1, 7, 'pending', null, null);
