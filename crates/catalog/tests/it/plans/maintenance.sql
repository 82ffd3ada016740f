-- On top of seed.sql: a quarter of the files and vectors ended, claims, runs, totals, expired drops.
update data_file set end_snapshot = begin_snapshot + 1 where data_file_id % 4 = 0;
update delete_file set end_snapshot = begin_snapshot + 1 where data_file_id % 4 = 0;
update data_file set stats_state = 'failed' where data_file_id % 400 = 1;
update table_identity set dropped_snapshot = 100 + table_id where table_id % 100 = 7;
insert into hydration (catalog_id, data_file_id, attempts, next_attempt_at)
select 1, f, 1, clock_timestamp() + interval '1 hour' from generate_series(2, 40000, 2) f;
insert into compaction_claim (catalog_id, data_file_id, claimed_by, claimed_until)
select 1 + f % 500, f, md5((f / 64)::text)::uuid, clock_timestamp() + interval '1 hour' from generate_series(1, 20000) f;
insert into lease (catalog_id, task) select c.catalog_id, t from catalog c, unnest('{expire,partition_totals}'::text[]) t;
insert into compaction_failure (catalog_id, data_file_id, attempts, next_attempt_at, reason)
select 1 + f % 500, f, 3, clock_timestamp() + interval '1 hour', 'why' from generate_series(20001, 30000) f;
insert into maintenance_run (catalog_id, task, started_at, last_seen_at, finished_at, result)
select 1, case n % 10 when 0 then 'verify' else 'expire' end, t, t, t, '{}'
from generate_series(1, 20000) n, lateral (select clock_timestamp() - n * interval '1 minute' as t) s;
insert into partition_fold (catalog_id, folded_snapshot, target_bytes) select catalog_id, 19990, 1000 from catalog;
insert into partition_total (catalog_id, table_id, spec_id, tuple, file_count, total_bytes, small_file_count,
                             small_file_bytes, dv_count)
select 1, t, 0, md5('')::uuid, 20, 2000, t % 20, 100, 0 from generate_series(1, 2000) t;
insert into partition_total (catalog_id, table_id, spec_id, tuple, file_count, total_bytes, small_file_count,
                             small_file_bytes, dv_count)
select c, t, 0, md5('')::uuid, t % 3, 2000, t % 3, 100, 0 from generate_series(2, 500) c, generate_series(1, 60) t;
insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace, last_name,
                            next_field_id)
select c, t, gen_random_uuid(), t, t, 'ns', 't' || t, 2 from generate_series(2, 500) c, generate_series(1, 60) t;
insert into namespace (catalog_id, namespace_id, name, begin_snapshot)
select c, n, 'n' || n, 4 from generate_series(2, 500) c, generate_series(1, 20) n;
insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
select c, t, t, 1, 't' || t from generate_series(2, 500) c, generate_series(1, 20) t;
-- history, a little of it below the floor: altered columns, specs, orders, names and views
insert into table_column (catalog_id, table_id, field_id, begin_snapshot, end_snapshot, name, type, nullable, ordinal)
select 1, t, 1, t - 1, t, 'old', 'int', true, 0 from generate_series(5, 2000, 20) t;
insert into partition_spec (catalog_id, table_id, spec_id, begin_snapshot, end_snapshot)
select 1, t, 2, t - 1, t from generate_series(5, 2000, 20) t;
insert into partition_spec_field select 1, t, 2, 0, 1, 'identity' from generate_series(5, 2000, 20) t;
insert into sort_spec (catalog_id, table_id, sort_id, begin_snapshot, end_snapshot)
select 1, t, 2, t - 1, t from generate_series(5, 2000, 20) t;
insert into table_version (catalog_id, table_id, begin_snapshot, end_snapshot, namespace_id, name)
select 1, t, t - 1, t, 1, 'old' || t from generate_series(5, 2000, 20) t;
insert into view (catalog_id, view_id, view_uuid, namespace_id, name, dialect, sql, begin_snapshot, end_snapshot)
select 1, 10000 + v, gen_random_uuid(), 1, 'old' || v, 'trino', 'select 1', v, v + 1 from generate_series(1, 20000) v;
insert into file_removal (catalog_id, path, kind, reason, settled_at, outcome)
select 1, 's3://lake/demo/settled' || r, 'data', 'snapshot_expiry', clock_timestamp() - interval '1 day', 'deleted'
from generate_series(1, 20000) r;
analyze;
