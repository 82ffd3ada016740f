"""Verify over a million files against sequential scans of the tables that it reads."""
import argparse
import statistics
import time

import lake
import machine

SCANS = ["data_file", "file_statistics", "delete_file", "snapshot", "table_identity", "table_version", "table_column",
         "table_counter", "file_removal"]


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run verify")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    with machine.postgres() as pg:
        pg.create("lake")
        with machine.server(pg.url("lake"), HOGLAKE_EXPIRY_INTERVAL_MS="0") as server:
            lake.table(server, "bench", "s3://lake/bench")
            machine.say(f"seeding {args.files:,} files")
            lake.seed(pg, "lake", "bench", args.files)
            report = machine.Report("Verify, seconds", args.json)
            ours, scans, free = [], [], machine.cpu_free()
            for _ in range(args.repeats):
                started = time.monotonic()
                for name in SCANS:
                    pg.psql("lake", f"set enable_indexscan = off; set enable_indexonlyscan = off; set enable_bitmapscan = off; "
                                    f"select count(*) from hoglake.{name}")
                scans.append(time.monotonic() - started)
                started = time.monotonic()
                verdict = server.call("POST", "/catalogs/bench/maintenance/verify")
                ours.append(time.monotonic() - started)
                assert verdict["status"] == "pass", verdict
            report.add(f"verify {args.files:,} files / sequential scans", statistics.median(ours), statistics.median(scans), 5,
                       higher_is_better=False, free=free)
            report.finish()
