"""Statistics of small files from their footers: the hydrator against a loop of pyarrow.parquet.read_metadata, both over the
same S3 endpoint."""
import argparse
import os
import struct
import time

import lake
import machine

DISTINCT = 16


def main(argv):
    lake.inside_venv("hydrate")
    parser = argparse.ArgumentParser(prog="bench/run hydrate")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--peer-files", type=int, default=2_000, help="files that pyarrow reads; its rate is compared")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    import pyarrow.parquet as pq
    with machine.postgres() as pg, lake.store() as store:
        pg.create("lake")
        folder = store.folder / "bench/data/bench/t0"
        folder.mkdir(parents=True)
        shapes = []
        for seed in range(DISTINCT):
            path = folder / f"shape-{seed}.parquet"
            pq.write_table(lake.mixed(20, seed), path, compression="zstd")
            body = path.read_bytes()
            shapes.append((path, len(body), struct.unpack("<I", body[-8:-4])[0]))
        files = []
        for number in range(args.files):
            path, size, footer = shapes[number % DISTINCT]
            os.link(path, folder / f"{number}.parquet")
            files.append((f"s3://lake/bench/data/bench/t0/{number}.parquet", 20, size, footer))
        with machine.server(pg.url("lake"), HOGLAKE_HYDRATOR_INTERVAL_MS="0", **store.settings()) as server:
            lake.table(server, "bench", "s3://lake/bench")
            lake.register(server, "bench", files)
        report = machine.Report("Hydration of small files, files/s", args.json)
        free = machine.cpu_free()
        done, seconds, _ = lake.maintain("hydrate", pg.url("lake"), "bench", **store.settings())
        assert done["hydrated"] == args.files, done
        arrow = store.arrow()
        started = time.monotonic()
        for path, *_ in files[:args.peer_files]:
            assert pq.read_metadata(path.removeprefix("s3://"), filesystem=arrow).num_rows == 20
        peer = args.peer_files / (time.monotonic() - started)
        report.add(f"hydrate {args.files:,} files / pyarrow", args.files / seconds, peer, 5, free=free)
        report.finish()
