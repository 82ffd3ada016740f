"""Commit latency on a large catalog against an empty one: the same Postgres, the same run, in turns.

The large catalog is seeded by SQL: a million snapshots, 50,000 tables and five million files by default. Registration is
what is measured; no object exists.
"""
import argparse
import statistics
import time

import machine

SEED = """
set search_path = hoglake;
set synchronous_commit = off;
with c as (select catalog_id, next_table_id from catalog where name = 'bench')
insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select catalog_id, s, clock_timestamp() - interval '1 day' + s * interval '10 milliseconds', 2
from c, generate_series(100, 99 + {snapshots}) s;
insert into snapshot_change (catalog_id, snapshot_id, ordinal, kind, object_id)
select catalog_id, s, 1, 'table_inserted_into', 1000 + s % {tables}
from catalog, generate_series(100, 99 + {snapshots}) s where name = 'bench';
insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace, last_name,
                            next_field_id)
select catalog_id, 1000 + t, gen_random_uuid(), 50, 50, 'bench', 'seeded' || t, 26
from catalog, generate_series(0, {tables} - 1) t where name = 'bench';
insert into table_counter (catalog_id, table_id, next_row_id, record_count, file_count, file_size_bytes)
select catalog_id, 1000 + t, 100000, 100000, 100, 100000 from catalog, generate_series(0, {tables} - 1) t
where name = 'bench';
insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
select catalog_id, 1000 + t, 50, 1, 'seeded' || t from catalog, generate_series(0, {tables} - 1) t where name = 'bench';
insert into table_column (catalog_id, table_id, field_id, begin_snapshot, name, type, nullable, ordinal)
select catalog_id, 1000 + t, f, 50, 'c' || f, 'long', true, f - 1
from catalog, generate_series(0, {tables} - 1) t, generate_series(1, 10) f where name = 'bench';
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes, footer_size,
                       row_id_start, stats_state)
select catalog_id, 1000000 + f, 1000 + f % {tables}, 100 + f % {snapshots},
       's3://lake/bench/data/bench/seeded/' || md5(f::text) || '.parquet', 1000, 4194304, 4096, f / {tables} * 1000, 'provided'
from catalog, generate_series(0, {files} - 1) f where name = 'bench';
update catalog set head_snapshot = 99 + {snapshots}, next_file_id = 1000000 + {files}, next_table_id = 1000 + {tables},
  live_table_count = live_table_count + {tables}, live_file_count = live_file_count + {files} where name = 'bench';
"""


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run flat")
    parser.add_argument("--snapshots", type=int, default=1_000_000)
    parser.add_argument("--tables", type=int, default=50_000)
    parser.add_argument("--files", type=int, default=5_000_000)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    with machine.postgres() as pg:
        for database in ("small", "large"):
            pg.create(database)
        with machine.server(pg.url("small")) as small, machine.server(pg.url("large")) as large:
            for server in (small, large):
                machine.table(server, "bench", "s3://lake/bench", columns=10)
            machine.say(f"seeding {args.snapshots:,} snapshots, {args.tables:,} tables, {args.files:,} files")
            started = time.monotonic()
            pg.psql("large", SEED.format(**vars(args)))
            pg.psql("large", "vacuum analyze")
            pg.psql("large", "checkpoint")
            machine.say(f"seeded in {time.monotonic() - started:.0f} s")
            report = machine.Report("Commit p50, one writer, large catalog / empty catalog (ms)", args.json)
            load = lambda server, seconds: machine.load(server, "bench", "s3://lake/bench", writers=1, seconds=seconds)["p50_ms"]
            for server in (small, large):
                load(server, 2)
            rounds = [(load(large, args.seconds), load(small, args.seconds)) for _ in range(args.rounds)]
            report.add("p50 commit", statistics.median([r[0] for r in rounds]), statistics.median([r[1] for r in rounds]), 1.15,
                       higher_is_better=False, free=machine.cpu_free())
            report.finish()
