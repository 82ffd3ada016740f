"""Cleanup of the removal queue against bare DeleteObjects requests for as many keys, on the same S3 endpoint."""
import argparse
import time

import lake
import machine

QUEUE = """
set search_path = hoglake;
insert into file_removal (catalog_id, path, kind, reason)
select catalog_id, data_path || '/data/bench/t0/' || md5(f::text) || '.parquet', 'data', 'snapshot_expiry'
from catalog, generate_series(0, {objects} - 1) f where name = 'bench';
analyze file_removal;
"""


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run clean")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    with machine.postgres() as pg, lake.store() as store:
        pg.create("lake")
        with machine.server(pg.url("lake"), HOGLAKE_CLEANUP_INTERVAL_MS="0", **store.settings()) as server:
            lake.table(server, "bench", "s3://lake/bench")
        pg.psql("lake", QUEUE.format(objects=args.objects))
        folder, bare = store.folder / "bench/data/bench/t0", store.folder / "bare/data/bench/t0"
        machine.say(f"making {2 * args.objects:,} objects")
        for place in (folder, bare):
            store.fill(place, args.objects)
        report = machine.Report("Cleanup, seconds", args.json)
        free = machine.cpu_free()
        keys = [f"bare/data/bench/t0/{lake.name_of(number)}" for number in range(args.objects)]
        started = time.monotonic()
        store.delete_objects(keys)
        peer = time.monotonic() - started
        assert not any(bare.iterdir())
        done, seconds, _ = lake.maintain("clean", pg.url("lake"), "bench", **store.settings())
        assert done["removed"] == args.objects and not any(folder.iterdir()), done
        report.add(f"clean {args.objects:,} objects / bare bulk deletes", seconds, peer, 2, higher_is_better=False, free=free)
        report.finish()
