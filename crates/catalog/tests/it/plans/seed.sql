-- On top of lake.sql: 20,000 snapshots, 2,000 tables of 10 columns, 40,000 files, 1,000 namespaces, views, consumers,
-- keys, 500 catalogs, 20,000 vectors and as many queued removals.
insert into catalog (name, data_path, data_range)
select 'c' || n, 's3://c' || n, text_range('s3://c' || n || '/', 's3://c' || n || '0') from generate_series(1, 500) n;
insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select 1, s, clock_timestamp() + s * interval '1 ms', s from generate_series(4, 20000) s;
insert into snapshot_change select 1, s, 1, 'table_altered', 1 + s % 2000 from generate_series(4, 20000) s;
update catalog set head_snapshot = 20000 where catalog_id = 1;
insert into namespace (catalog_id, namespace_id, name, begin_snapshot)
select 1, n, 'n' || n, 4 from generate_series(2, 1000) n;
insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace, last_name,
                            next_field_id)
select 1, t, gen_random_uuid(), t, t, 'ns', 't' || t, 11 from generate_series(3, 2000) t;
insert into table_counter (catalog_id, table_id) select 1, t from generate_series(3, 2000) t;
insert into table_version (catalog_id, table_id, begin_snapshot, end_snapshot, namespace_id, name)
select 1, t, t, null, 1, 't' || t from generate_series(3, 2000) t;
insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, nullable, ordinal)
select 1, t, f, t, 'c' || f, 'long', true, f - 1 from generate_series(3, 2000) t, generate_series(1, 10) f;
insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot)
select 1, t, 1, t from generate_series(3, 2000) t;
insert into partition_spec_field select 1, t, 1, 0, 1, 'identity' from generate_series(3, 2000) t;
insert into sort_spec (catalog_id, table_id, sort_id, begin_snapshot)
select 1, t, 1, t from generate_series(3, 2000) t;
insert into sort_spec_field select 1, t, 1, 0, 1, false, false from generate_series(3, 2000) t;
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes,
                       row_id_start, stats_state, missing_field_ids)
select 1, f, 1 + f % 2000, 4 + f / 4, 's3://lake/demo/' || f, 10, 100, f * 10,
       case f % 50 when 0 then 'pending' else 'provided' end::stats_state, f % 60 = 0
from generate_series(1, 40000) f;
insert into view (catalog_id, view_id, view_uuid, namespace_id, name, dialect, sql, begin_snapshot)
select 1, v, gen_random_uuid(), 1 + v % 3, 'v' || v, 'trino', 'select 1', 4 from generate_series(1, 3000) v;
insert into consumer_offset (catalog_id, consumer_id, table_uuid, committed_snapshot)
select 1, 'c' || c, '00000000-0000-4000-8000-000000000001', 3 from generate_series(1, 5000) c;
insert into idempotency_key (catalog_id, key, request_hash, status)
select 1, 'k' || k, sha256(k::text::bytea), 200 from generate_series(1, 5000) k;
insert into delete_file (catalog_id, delete_file_id, table_id, data_file_id, begin_snapshot, path, delete_count, file_size_bytes)
select 1, 100000 + f, 1 + f % 2000, f, 4 + f / 4, 's3://lake/demo/dv' || f, 1, 64 from generate_series(1, 20000) f;
insert into file_removal (catalog_id, path, kind, reason)
select 1, 's3://lake/demo/gone' || r, 'data', 'snapshot_expiry' from generate_series(1, 20000) r;
analyze;
