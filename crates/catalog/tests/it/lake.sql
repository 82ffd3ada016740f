insert into catalog (name, data_path, data_range, head_snapshot, schema_version, next_namespace_id, next_table_id,
                     live_table_count)
values ('demo', 's3://lake/demo/', text_range('s3://lake/demo/', 's3://lake/demo0'), 3, 3, 2, 3, 2);
insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select 1, s, clock_timestamp(), s from generate_series(0, 3) s;
insert into snapshot_change values (1, 1, 1, 'namespace_created', 1), (1, 2, 1, 'table_created', 1),
  (1, 3, 1, 'table_created', 2);
insert into namespace (catalog_id, namespace_id, name, begin_snapshot) values (1, 1, 'ns', 1);
insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace, last_name,
                            next_field_id)
values (1, 1, '00000000-0000-4000-8000-000000000001', 2, 2, 'ns', 't', 3),
       (1, 2, '00000000-0000-4000-8000-000000000002', 3, 3, 'ns', 'u', 3);
insert into table_counter (catalog_id, table_id) values (1, 1), (1, 2);
insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
values (1, 1, 2, 1, 't'), (1, 2, 3, 1, 'u');
insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, nullable, ordinal)
select 1, t, f, t + 1, (array['id', 'name'])[f], (array['long', 'string'])[f]::column_type, true, f - 1
from generate_series(1, 2) t, generate_series(1, 2) f;
