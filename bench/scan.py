"""Scans over HTTP against psql's `\\copy` of the same columns to a file, in the same run on the same Postgres.

For each size: the whole scan to the last byte, read by another process (the time of curl, without parsing); the scan with a
filter that keeps 1% of the files, cold (the server has just started) and warm; how far the server's memory grew.
"""
import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

COLUMNS = ("data_file_id, path, record_count, file_size_bytes, footer_size, row_id_start, stats_state, begin_snapshot, spec_id, "
           "partition_values, explicit_row_ids")
STATISTICS = 10


def seed(pg, database, table, files, statistics=True):
    """Files of 1,000 rows in commits of 100, each with statistics of ten long columns; column i of file n spans
    [1000 n, 1000 n + 999]."""
    bounds = lambda value: f"""(select decode(string_agg(substr(h, n, 2), '' order by n desc), 'hex')
        from (select lpad(to_hex({value}), 16, '0') as h) x, generate_series(1, 15, 2) n)"""
    fields = ",".join(str(i + 1) for i in range(STATISTICS))
    repeat = lambda value: "'{" + ",".join([value] * STATISTICS) + "}'"
    pg.psql(database, f"""
set search_path = hoglake;
do $$ declare base bigint; first bigint; wanted bigint := {files};
begin
  select head_snapshot, next_file_id into base, first from catalog where name = 'bench';
  insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
    select 1, base + s, clock_timestamp(), 2 from generate_series(1, (wanted + 99) / 100) s;
  insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, path, record_count, file_size_bytes, footer_size,
                         row_id_start, stats_state)
    select 1, first + i, {table}, base + 1 + i / 100,
           's3://lake/bench/data/bench/t{table}/0192f8a0-6c1e-7b7e-' || lpad(to_hex(i), 16, '0') || '.parquet', 1000, 4194304, 4096,
           i * 1000, 'provided'
    from generate_series(0, wanted - 1) i;
  if {statistics} then
  insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                               lower_bounds, upper_bounds)
    select 1, first + i, '{{{fields}}}', {repeat('1000')}, {repeat('0')}, {repeat('null')}, {repeat('8192')},
           array_fill(lower, array[{STATISTICS}]), array_fill(upper, array[{STATISTICS}])
    from generate_series(0, wanted - 1) i,
         lateral (select {bounds('i * 1000')} as lower, {bounds('i * 1000 + 999')} as upper) b;
  end if;
  update catalog set head_snapshot = base + (wanted + 99) / 100, next_file_id = first + wanted, live_file_count = live_file_count + wanted
    where name = 'bench';
  update table_counter set file_count = wanted, record_count = wanted * 1000, next_row_id = wanted * 1000
    where catalog_id = 1 and table_id = {table};
end $$;
vacuum analyze data_file; vacuum analyze file_statistics; analyze catalog; analyze snapshot;
""")


def copy_seconds(pg, database, table, folder):
    """psql copies the columns of the scan to a file."""
    target = Path(folder) / "copy.tsv"
    sql = (f"\\copy (select {COLUMNS} from hoglake.data_file where catalog_id = 1 and table_id = {table} and end_snapshot is null "
           f"order by row_id_start, data_file_id) to '{target}'")
    started = time.monotonic()
    subprocess.run([pg.bin / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", "-c", sql], check=True, env=pg.env(database))
    return time.monotonic() - started


def scan_seconds(server, table, folder, filter=None):
    """curl reads a scan to a file: seconds to the last byte, bytes, headers."""
    target, headers = Path(folder) / "scan.json", Path(folder) / "headers"
    command = ["curl", "-sS", "--fail", "-G", "-o", target, "-D", headers, "-w", "%{time_total} %{size_download}",
               f"http://{server.address}/v1/catalogs/bench/namespaces/bench/tables/t{table - 1}/scan"]
    if filter:
        command += ["--data-urlencode", f"filter={filter}"]
    seconds, size = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout.split()
    with open(target, "rb") as answer:
        answer.seek(-1, 2)
        if answer.read(1) != b"]":
            sys.exit("the scan is not complete")
    return float(seconds), int(size), headers.read_text().lower()


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run scan")
    parser.add_argument("--files", type=lambda text: [int(n) for n in text.split(",")], default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    if not shutil.which("curl"):
        sys.exit("bench needs curl")
    machine.build()
    with machine.postgres() as pg, tempfile.TemporaryDirectory() as folder:
        pg.create("scan")
        url = pg.url("scan")
        with machine.server(url) as server:
            machine.table(server, "bench", "s3://lake/bench", tables=len(args.files))
        for index, files in enumerate(args.files):
            machine.say(f"preseeding {files:,} files")
            seed(pg, "scan", index + 1, files)
        report = machine.Report("scan: seconds to the last byte against psql's \\copy of the same columns", args.json)
        for index, files in enumerate(args.files):
            measure(report, pg, url, index + 1, files, args.rounds, folder)
        report.finish()


def measure(report, pg, url, table, files, rounds, folder):
    with machine.server(url) as server:
        idle = server.rss_mib()
        free = machine.cpu_free()
        copies, scans = [], []
        for round_ in range(rounds + 1):
            copied = copy_seconds(pg, "scan", table, folder)
            scanned, size, _ = scan_seconds(server, table, folder)
            if round_:
                copies.append(copied)
                scans.append(scanned)
        full = statistics.median(scans)
        report.add(f"{files:,} files, {size >> 20} MiB", full, statistics.median(copies), 1.5, higher_is_better=False, free=free)

        begin = files // 3
        filter = f"c3 >= {begin * 1000} and c3 < {(begin + files // 100) * 1000}"
        cold, _, headers = scan_seconds(server, table, folder, filter)
        if f"hoglake-files-considered: {files}" not in headers or f"hoglake-files-kept: {files // 100}" not in headers:
            sys.exit("the filter did not keep 1%:\n" + headers)
        warm = statistics.median(scan_seconds(server, table, folder, filter)[0] for _ in range(2 * rounds))
        report.add(f"{files:,} files, filter keeps 1%, warm", warm, full, 0.15, higher_is_better=False)
        report.add(f"{files:,} files, filter keeps 1%, cold", cold, full, 10, higher_is_better=False)
        two = f"{filter} and c5 >= 0"
        scan_seconds(server, table, folder, two)
        both = statistics.median(scan_seconds(server, table, folder, two)[0] for _ in range(rounds))
        report.add(f"{files:,} files, filter on two columns, warm", both, full, 0.15, higher_is_better=False)
        grown = server.rss_mib() - idle
        report.add(f"{files:,} files, memory grown, MiB", grown, 64, 1, higher_is_better=False)
