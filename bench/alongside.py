"""Commit p99 of 16 writers alongside maintenance, against the same writers alone: while files of a million are expired
and cleaned, and while compaction runs. One Postgres, one server with its own timers, turns taken within the run."""
import argparse
import os
import shutil
import statistics
import tempfile
import threading
from pathlib import Path

import compact
import lake
import machine

QUEUED = "select count(*) from hoglake.file_removal where settled_at is null"
SETTLED = "select count(*) from hoglake.file_removal where settled_at is not null"


def main(argv):
    lake.inside_venv("alongside")
    parser = argparse.ArgumentParser(prog="bench/run alongside")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--objects", type=int, default=200_000, help="files whose objects exist")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["expiry", "compaction"])
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    report = machine.Report(f"Commit p99 of {args.writers} writers, alongside / alone (ms)", args.json)
    if args.only != "compaction":
        expiry(args, report)
    if args.only != "expiry":
        compaction(args, report)
    report.finish()


def p99(server, args, data_path, **options):
    return machine.load(server, "bench", data_path, writers=args.writers, seconds=args.seconds, **options)["p99_ms"]


def expiry(args, report):
    timers = {"HOGLAKE_EXPIRY_INTERVAL_MS": "100", "HOGLAKE_EXPIRY_BATCH": str(args.files),
              "HOGLAKE_CLEANUP_INTERVAL_MS": "100", "HOGLAKE_CLEANUP_BATCH": "100000"}
    idle = {"HOGLAKE_EXPIRY_INTERVAL_MS": "0", "HOGLAKE_CLEANUP_INTERVAL_MS": "0"}
    with machine.postgres() as pg, lake.store() as store:
        pg.create("seeded")
        with machine.server(pg.url("seeded"), **idle, **store.settings()) as server:
            machine.table(server, "bench", "s3://lake/bench")
            server.call("PATCH", "/catalogs/bench/options", {"snapshot_retention_seconds": 3600})
        machine.say(f"seeding {args.files:,} files to expire")
        lake.seed(pg, "seeded", "bench", args.files + 100, args.files)
        store.fill(store.folder / "bench/data/bench/t0", args.objects)
        pg.psql("postgres", "create database twin template seeded")
        pg.psql("postgres", "checkpoint")
        with machine.server(pg.url("twin"), **idle, **store.settings()) as alone:
            p99(alone, args, "s3://lake/bench")
            without = [p99(alone, args, "s3://lake/bench") for _ in range(args.rounds)]
        pg.psql("postgres", "checkpoint")
        free = machine.cpu_free()
        with machine.server(pg.url("seeded"), **timers, **store.settings()) as server:
            during = [p99(server, args, "s3://lake/bench") for _ in range(args.rounds)]
            left, done = int(pg.psql("seeded", QUEUED)), int(pg.psql("seeded", SETTLED))
            machine.say(f"meanwhile {left + done:,} files were expired and {done:,} cleaned: {without} ms alone, {during} ms alongside")
            assert left + done > 0 and done > 0, "maintenance did nothing"
        report.add("expiry and cleanup", statistics.median(during), statistics.median(without), 2, higher_is_better=False, free=free)


def compaction(args, report):
    work = Path(tempfile.mkdtemp(prefix="hoglake-bench-alongside-"))
    idle = {"HOGLAKE_HYDRATOR_INTERVAL_MS": "0", "HOGLAKE_LOCAL_FILES": "true", "HOGLAKE_TEMP_DIR": str(work)}
    try:
        with machine.postgres() as pg:
            pg.create("lake")
            machine.say("writing the files to compact")
            compact.make(work / "one", 16, 90_000)
            data = work / "bench"
            with machine.server(pg.url("lake"), **idle) as server:
                lake.table(server, "bench", f"file://{data}", ("kind", "id"))
                server.call("POST", "/catalogs/bench/namespaces", {"name": "writers"})
                columns = [{"name": f"c{number}", "type": "long"} for number in range(10)]
                server.call("POST", "/catalogs/bench/namespaces/writers/tables", {"name": "t0", "columns": columns})
                folder = data / "data/bench/t0"
                folder.mkdir(parents=True)
                for number in range(64 * 8):
                    os.link(work / f"one/f{number % 16:04}.parquet", folder / f"f{number:04}.parquet")
                lake.register(server, "bench", list(compact.registrations(folder, 90_000)))
                # the writers' files are too large to be compacted: there is nothing where they say they are
                written = {"namespace": "writers", "file_bytes": 1 << 40}
                p99(server, args, f"file://{data}", **written)
                without = [p99(server, args, f"file://{data}", **written) for _ in range(args.rounds)]
            free = machine.cpu_free()
            with machine.server(pg.url("lake"), **idle) as server:
                stop, groups = threading.Event(), []

                def work_on():
                    try:
                        while not stop.is_set():
                            groups.append(server.call("POST", "/catalogs/bench/maintenance/compact?batch=1")["groups_compacted"])
                    except SystemExit as refused:  # would end this thread in silence
                        groups.append(0)
                        machine.say(f"compaction stopped: {refused}")

                worker = threading.Thread(target=work_on)
                worker.start()
                during = [p99(server, args, f"file://{data}", **written) for _ in range(args.rounds)]
                stop.set()
                worker.join()
                machine.say(f"meanwhile {sum(groups)} groups were compacted: {without} ms alone, {during} ms alongside")
                assert groups and all(groups), "compaction had nothing to do"
            report.add("compaction", statistics.median(during), statistics.median(without), 2, higher_is_better=False, free=free)
    finally:
        shutil.rmtree(work, ignore_errors=True)
