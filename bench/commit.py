"""Commits over HTTP against what Postgres does with the same rows.

Peers, in the same run on the same Postgres: `serial`, pgbench writing one commit a transaction, several statements under
an advisory lock a catalog, with as many clients; `group`, one connection writing 32 commits a transaction with array
parameters; `copy`, psql's COPY of the same file and statistics rows.
"""
import argparse
import subprocess
import time

import machine

STATISTICS = 10
SCHEMA = """
create table cat (cat_id bigint primary key, next_snapshot bigint not null, next_file bigint not null,
  schema_version bigint not null) with (fillfactor = 10);
create table snapshot (cat_id bigint, snapshot_id bigint, at timestamptz not null default now(), schema_version bigint,
  next_file bigint, author text, message text, primary key (cat_id, snapshot_id));
create table change (cat_id bigint, snapshot_id bigint, ordinal int, kind smallint, table_id bigint, detail text,
  primary key (cat_id, snapshot_id, ordinal));
create table data_file (cat_id bigint, file_id bigint, table_id bigint, begin_snapshot bigint, end_snapshot bigint,
  path text, format smallint default 1, record_count bigint, size_bytes bigint, footer_size int, row_id_start bigint,
  primary key (cat_id, file_id));
create index on data_file (cat_id, table_id, file_id) where end_snapshot is null;
create index on data_file (cat_id, end_snapshot) where end_snapshot is not null;
create table column_stats (cat_id bigint, file_id bigint, column_id int, table_id bigint, value_count bigint,
  null_count bigint, size_bytes bigint, min_value text, max_value text, primary key (cat_id, file_id, column_id));
insert into cat values (1, 1, 1, 1);
"""
PATH = "'s3://lake/bench/data/bench/t0/0192f8a0-6c1e-7b7e-00000000-0000' || {} || '.parquet'"


def serial_script():
    stats = ", ".join(f"(1, :fid, {c}, 1, 1000, 0, 8192, '1000000{c}', '2000000{c}')" for c in range(STATISTICS))
    return f"""begin;
select pg_advisory_xact_lock(42, 1);
update cat set next_snapshot = next_snapshot + 1, next_file = next_file + 1 where cat_id = 1
  returning next_snapshot - 1 as snap, next_file - 1 as fid, schema_version as sv \\gset
insert into snapshot (cat_id, snapshot_id, schema_version, next_file) values (1, :snap, :sv, :fid + 1);
insert into change values (1, :snap, 0, 1, 1, 'insert');
insert into data_file values (1, :fid, 1, :snap, null, {PATH.format(':fid')}, 1, 1000, 4194304, 4096, 0);
insert into column_stats values {stats};
commit;
"""


def group_script(n):
    return f"""begin;
select pg_advisory_xact_lock(42, 1);
update cat set next_snapshot = next_snapshot + {n}, next_file = next_file + {n} where cat_id = 1
  returning next_snapshot - {n} as snap, next_file - {n} as fid, schema_version as sv \\gset
insert into snapshot (cat_id, snapshot_id, schema_version, next_file)
  select 1, :snap + i, :sv, :fid + i + 1 from generate_series(0, {n - 1}) i;
insert into change select 1, :snap + i, 0, 1, 1, 'insert' from generate_series(0, {n - 1}) i;
insert into data_file select 1, :fid + i, 1, :snap + i, null, {PATH.format('(:fid + i)')}, 1, 1000, 4194304, 4096, 0
  from generate_series(0, {n - 1}) i;
insert into column_stats select 1, :fid + i, c, 1, 1000, 0, 8192, '1000000' || c, '2000000' || c
  from generate_series(0, {n - 1}) i, generate_series(0, {STATISTICS - 1}) c;
commit;
"""


def copy_seconds(pg, files, columns):
    """Seconds of psql's COPY of `files` file rows with `columns` statistics rows each."""
    base = int(pg.psql("limits", "select coalesce(max(file_id), 0) + 1 from data_file"))
    rows = ["copy data_file from stdin;"]
    rows += [f"1\t{base + i}\t1\t1\t\\N\ts3://lake/bench/data/bench/t0/0192f8a0-6c1e-7b7e-{base + i:013x}.parquet\t1\t1000\t4194304\t4096\t0"
             for i in range(files)]
    rows += ["\\.", "copy column_stats from stdin;"]
    rows += [f"1\t{base + i}\t{c}\t1\t1000\t0\t8192\t1000000{c}\t2000000{c}" for i in range(files) for c in range(columns)]
    text = "\n".join([*rows, "\\.", ""])
    started = time.monotonic()
    subprocess.run([pg.bin / "psql", "-Xq1", "-v", "ON_ERROR_STOP=1", "-f", "-"], input=text, text=True, check=True,
                   env=pg.env("limits"), stdout=subprocess.DEVNULL)
    return time.monotonic() - started


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run commit")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    with machine.postgres() as pg:
        pg.create("limits")
        pg.create("lake")
        pg.psql("limits", SCHEMA)
        with machine.server(pg.url("lake")) as server:
            data_path = "s3://lake/bench"
            machine.table(server, "bench", data_path, columns=25)
            machine.load(server, "bench", data_path, writers=16, seconds=1)
            report = machine.Report("Commits a second, closed loop over HTTP", args.json)
            ours, serial = {}, {}
            group = pg.pgbench("limits", group_script(32), 1, args.seconds, scale=32)["rate"]
            for writers, goal in [(1, 0.6), (4, None), (16, 2.5), (64, 4.0), (256, None)]:
                free = machine.cpu_free()
                result = machine.load(server, "bench", data_path, writers=writers, seconds=args.seconds)
                ours[writers] = result
                if writers != 256:
                    serial[writers] = pg.pgbench("limits", serial_script(), writers, args.seconds)
                    report.add(f"{writers} writers / serial SQL, same clients", result["commits_per_second"],
                               serial[writers]["rate"], goal, free=free)
            best = max(r["commits_per_second"] for r in ours.values())
            group = (group + pg.pgbench("limits", group_script(32), 1, args.seconds, scale=32)["rate"]) / 2
            report.add("64 writers / plain SQL group of 32", ours[64]["commits_per_second"], group, 0.4)
            report.add("256 writers / 16 writers", ours[256]["commits_per_second"], ours[16]["commits_per_second"], 1.0)
            report.add("p99 / p50 at 64 writers (ms)", ours[64]["p99_ms"], ours[64]["p50_ms"], 8, higher_is_better=False)
            report.add("p50 of 1 writer / serial SQL (ms)", ours[1]["p50_ms"], serial[1]["p50_ms"], 1.5, higher_is_better=False)
            ten_thousand = machine.load(server, "bench", data_path, writers=1, commits=3, files=10_000, seconds=600)
            report.add("files/s, 10,000 in a commit / COPY", 10_000 / (ten_thousand["p50_ms"] / 1000),
                       10_000 / copy_seconds(pg, 10_000, STATISTICS), 0.4)
            wide = machine.load(server, "bench", data_path, writers=1, commits=20, files=270, columns=25, seconds=600)
            copies = sorted(copy_seconds(pg, 270, 25) for _ in range(5))
            report.add("270 x 25 commit / COPY (ms, all of it)", wide["p50_ms"], copies[2] * 1000, 2, higher_is_better=False)
            print(f"server: {server.rss_mib():.0f} MiB resident, best {best:.0f} commits/s, "
                  f"p50 {ours[1]['p50_ms']:.2f} ms alone, ready in {server.ready_seconds * 1000:.0f} ms")
            report.finish()
