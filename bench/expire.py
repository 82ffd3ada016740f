"""Expiry against range deletes of the same rows in SQL that queue the same paths, on a copy of the same database. Range
deletes that forget the paths are shown, too."""
import argparse
import statistics
import time

import lake
import machine

# A page: what a sweep of so many snapshots has to delete, and the paths that it has to queue, by ranges of keys.
RANGES = """
begin;
with files as (delete from data_file where catalog_id = 1 and data_file_id >= 1000000 + {low} and data_file_id < 1000000 + {high}
               returning data_file_id, path),
     statistics as (delete from file_statistics s using files f where s.catalog_id = 1 and s.data_file_id = f.data_file_id)
insert into file_removal (catalog_id, path, kind, reason) select 1, path, 'data', 'snapshot_expiry' from files;
delete from snapshot_change where catalog_id = 1 and snapshot_id >= {low} and snapshot_id < {high};
delete from snapshot where catalog_id = 1 and snapshot_id >= {low} and snapshot_id < {high};
commit;
"""
BARE = """
set search_path = hoglake;
delete from file_statistics where catalog_id = 1 and data_file_id < 1000000 + {dead};
delete from data_file where catalog_id = 1 and data_file_id < 1000000 + {dead};
delete from snapshot_change where catalog_id = 1 and snapshot_id < {dead};
delete from snapshot where catalog_id = 1 and snapshot_id < {dead};
"""


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run expire")
    parser.add_argument("--snapshots", type=int, default=200_000, help="each with a dead file and ten columns' statistics")
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    files, dead = args.snapshots + 100, args.snapshots
    with machine.postgres() as pg:
        pg.create("seeded")
        with machine.server(pg.url("seeded"), HOGLAKE_EXPIRY_INTERVAL_MS="0") as server:
            lake.table(server, "bench", "s3://lake/bench")
            server.call("PATCH", "/catalogs/bench/options", {"snapshot_retention_seconds": 1})
        machine.say(f"seeding {files:,} snapshots")
        lake.seed(pg, "seeded", "bench", files, dead)
        report = machine.Report("Expiry, snapshots/s, each with a dead file and its statistics", args.json)
        ours, ranges, bare, free = [], [], [], machine.cpu_free()

        def copy():
            pg.psql("postgres", "drop database if exists copy")
            pg.psql("postgres", "create database copy template seeded")
            pg.psql("postgres", "checkpoint")

        def timed(sql):
            copy()
            started = time.monotonic()
            pg.psql("copy", sql)
            return args.snapshots / (time.monotonic() - started)

        pages = "".join(RANGES.format(low=low, high=low + args.batch) for low in range(0, dead, args.batch))
        for _ in range(args.repeats):
            copy()
            done, seconds, _ = lake.maintain("expire", pg.url("copy"), "bench", HOGLAKE_EXPIRY_BATCH=str(args.batch))
            assert done["data_files_queued"] == dead, done
            ours.append(done["snapshots_expired"] / seconds)
            ranges.append(timed("set search_path = hoglake;" + pages))
            bare.append(timed(BARE.format(dead=dead)))
        report.add(f"expire {args.snapshots:,} snapshots / range deletes", statistics.median(ours), statistics.median(ranges), 0.6, free=free)
        machine.say(f"range deletes that forget the paths: {statistics.median(bare):,.0f}/s")
        report.finish()
