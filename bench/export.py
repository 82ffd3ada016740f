"""The export over HTTP against psql's `\\copy` of the same columns to a file, in the same run on the same Postgres.

A million files in one table, and in 10,000 tables of a hundred; how far the server's memory grew over all of it.
"""
import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine
import scan


def spread(pg, database, tables, files):
    """As many tables as there are, with `files` each, in the same commits."""
    pg.psql(database, f"""
set search_path = hoglake;
do $$ declare base bigint; first bigint; total bigint := {tables * files};
begin
  select head_snapshot, next_file_id into base, first from catalog where name = 'bench';
  insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes, footer_size,
                         row_id_start, stats_state)
    select 1, first + i, 2 + i % {tables}, base,
           's3://lake/bench/data/bench/t' || (2 + i % {tables}) || '/0192f8a0-6c1e-7b7e-' || lpad(to_hex(i), 16, '0') || '.parquet', 1000,
           4194304, 4096, (i / {tables}) * 1000, 'provided'
    from generate_series(0, total - 1) i;
  insert into table_identity (catalog_id, table_id, table_uuid, created_snapshot, ddl_snapshot, last_namespace, last_name, next_field_id)
    select 1, t, gen_random_uuid(), base, base, 'bench', 'x' || t, 2 from generate_series(2, {tables} + 1) t;
  insert into table_version (catalog_id, table_id, begin_snapshot, namespace_id, name)
    select 1, t, base, 1, 'x' || t from generate_series(2, {tables} + 1) t;
  insert into table_counter (catalog_id, table_id, next_row_id, record_count, file_count)
    select 1, t, {files} * 1000, {files} * 1000, {files} from generate_series(2, {tables} + 1) t;
  update catalog set next_file_id = first + total, live_file_count = live_file_count + total, next_table_id = {tables} + 2
    where name = 'bench';
end $$;
vacuum analyze;
""")


def copy_seconds(pg, folder, where):
    target = Path(folder) / "copy.tsv"
    sql = (f"\\copy (select {scan.COLUMNS} from hoglake.data_file where catalog_id = 1 and {where} and end_snapshot is null "
           f"order by table_id, row_id_start, data_file_id) to '{target}'")
    started = time.monotonic()
    subprocess.run([pg.bin / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-c", sql], check=True, env=pg.env("export"))
    return time.monotonic() - started


def export_seconds(server, folder):
    """curl reads the manifest to a file: seconds to the last byte, bytes."""
    target = Path(folder) / "export.json"
    command = ["curl", "-sS", "--fail", "-o", target, "-w", "%{time_total} %{size_download}",
               f"http://{server.address}/v1/catalogs/bench/export"]
    seconds, size = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.split()
    with open(target, "rb") as answer:
        answer.seek(-1, 2)
        if answer.read(1) != b"}":
            sys.exit("the manifest is not complete")
    return float(seconds), int(size)


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run export")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--tables", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    with machine.postgres() as pg, tempfile.TemporaryDirectory() as folder:
        pg.create("export")
        url = pg.url("export")
        report = machine.Report("export: seconds to the last byte against psql's \\copy of the same columns", args.json)
        with machine.server(url, HOGLAKE_HYDRATOR_INTERVAL_MS="0") as server:
            machine.table(server, "bench", "s3://lake/bench")
            idle = server.rss_mib()
            machine.say(f"preseeding {args.files:,} files of one table")
            scan.seed(pg, "export", 1, args.files, statistics=False)
            measure(report, pg, server, folder, args.rounds, "table_id = 1", f"{args.files:,} files of one table")
            grown = server.rss_mib() - idle
            each = args.files // args.tables
            machine.say(f"preseeding {each * args.tables:,} more in {args.tables:,} tables")
            spread(pg, "export", args.tables, each)
            label = f"{args.files:,} more in {args.tables:,} tables"
            measure(report, pg, server, folder, args.rounds, "true", label)
            report.add("memory grown by the first, MiB", grown, 64, 1, higher_is_better=False)
            report.add("memory grown by both, MiB", server.rss_mib() - idle, 64, 1, higher_is_better=False)
        report.finish()


def measure(report, pg, server, folder, rounds, where, what):
    free = machine.cpu_free()
    copies, exports = [], []
    for round_ in range(rounds + 1):
        copied = copy_seconds(pg, folder, where)
        exported, size = export_seconds(server, folder)
        if round_:
            copies.append(copied)
            exports.append(exported)
    label = f"{what}, {size >> 20} MiB"
    report.add(label, statistics.median(exports), statistics.median(copies), 1.5, higher_is_better=False, free=free)
