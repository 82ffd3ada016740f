-- On top of seed.sql: a quarter of the files and vectors ended, claims, runs, totals, expired drops.
update data_file set end_snapshot = begin_snapshot + 1 where data_file_id % 4 = 0;
update delete_file set end_snapshot = begin_snapshot + 1 where data_file_id % 4 = 0;
update data_file set stats_state = 'failed' where data_file_id % 400 = 1;
update table_identity set dropped_snapshot = 100 + table_id where table_id % 100 = 7;
insert into hydration (catalog_id, data_file_id, attempts, next_attempt_at)
select 1, f, 1, clock_timestamp() + interval '1 hour' from generate_series(2, 40000, 2) f;
insert into compaction_claim (catalog_id, data_file_id, claimed_by, claimed_until)
select 1, f, md5((f / 64)::text)::uuid, clock_timestamp() + interval '1 hour' from generate_series(1, 20000) f;
insert into lease (catalog_id, task) select c.catalog_id, t from catalog c, unnest('{expire,partition_totals}'::text[]) t;
insert into maintenance_run (catalog_id, task, started_at)
select 1, 'expire', clock_timestamp() - n * interval '1 minute' from generate_series(1, 20000) n;
insert into partition_fold (catalog_id, folded_snapshot, target_bytes) select catalog_id, 19990, 1000 from catalog;
insert into partition_total (catalog_id, table_id, spec_id, tuple, file_count, total_bytes, small_file_count,
                             small_file_bytes, dv_count)
select 1, t, 0, md5('')::uuid, 20, 2000, t % 20, 100, 0 from generate_series(1, 2000) t;
insert into file_removal (catalog_id, path, kind, reason, settled_at, outcome)
select 1, 's3://lake/demo/settled' || r, 'data', 'snapshot_expiry', clock_timestamp() - interval '1 day', 'deleted'
from generate_series(1, 20000) r;
analyze;
