"""Compaction of 64 files of about 4 MB into one, sorted and unsorted, against DuckDB and pyarrow on the same files and as
many threads; and its memory there and with files of 16 times the size. `hoglake compact` is measured as a whole, planning
and commit included; what is written is synced, the peers' too."""
import argparse
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lake
import machine

DUCKDB = """
import duckdb
import statistics
c = duckdb.connect()
c.execute("SET threads={threads}; SET enable_progress_bar=false")
c.execute("COPY (SELECT * FROM read_parquet('{source}/*.parquet'){order}) TO '{out}' (FORMAT parquet, COMPRESSION zstd)")
"""
PYARROW_SORTED = """
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds
pa.set_cpu_count({threads})
table = ds.dataset('{source}', format='parquet').to_table().sort_by([('kind', 'ascending'), ('id', 'ascending')])
pq.write_table(table, '{out}', compression='zstd')
"""
PYARROW = """
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds
pa.set_cpu_count({threads})
data = ds.dataset('{source}', format='parquet')
with pq.ParquetWriter('{out}', data.schema, compression='zstd') as writer:
    for batch in data.to_batches():
        writer.write_batch(batch)
"""


def make(folder, files, rows):
    """Files whose ids are drawn from one shuffled range, so that every file spans all of it."""
    import numpy as np
    import pyarrow.parquet as pq
    folder.mkdir(parents=True)
    order = np.random.default_rng(1).permutation(files * rows)
    for number in range(files):
        ids = np.sort(order[number * rows:(number + 1) * rows]).astype(np.int64)
        pq.write_table(lake.mixed(rows, number + 2, ids), folder / f"f{number:04}.parquet", compression="zstd")


def registrations(folder, rows):
    for path in sorted(folder.glob("*.parquet")):
        with open(path, "rb") as file:
            file.seek(-8, os.SEEK_END)
            yield f"file://{path}", rows, path.stat().st_size, struct.unpack("<I", file.read(4))[0]


def peer(script, source, out, threads, order=""):
    """Seconds and output bytes of a peer in a process of its own."""
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", script.format(source=source, out=out, threads=threads, order=order)], check=True)
    # ours is on disk before it is committed
    with open(out, "rb+") as file:
        os.fsync(file.fileno())
    seconds, size = time.monotonic() - started, out.stat().st_size
    out.unlink()
    return seconds, size


class Ours:
    """Compacts a catalog made for the occasion; the folder loses what was written, the inputs stay."""

    def __init__(self, server, url):
        self.server, self.url, self.made = server, url, 0

    def run(self, folder, rows, sort):
        self.made += 1
        catalog, data = f"c{self.made}", folder.parent / f"{folder.name}-{self.made}"
        inner = data / "data/bench/t0"
        inner.parent.mkdir(parents=True)
        shutil.copytree(folder, inner, copy_function=os.link)
        lake.table(self.server, catalog, f"file://{data}", sort)
        lake.register(self.server, catalog, list(registrations(inner, rows)))
        done, seconds, peak = lake.maintain("compact", self.url, catalog, HOGLAKE_LOCAL_FILES="true",
                                            HOGLAKE_COMPACTION_TARGET_BYTES=str(1 << 40), HOGLAKE_TEMP_DIR=str(folder.parent))
        assert done["groups_compacted"] == 1 and done["files_out"] == 1, done
        shutil.rmtree(data)
        return seconds, done["bytes_out"], peak


def main(argv):
    lake.inside_venv("compact")
    parser = argparse.ArgumentParser(prog="bench/run compact")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--rows", type=int, default=90_000, help="rows a file: 90,000 are about 4 MB")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--times", type=int, default=16, help="how much larger the files of the second memory figure are; 0 none")
    parser.add_argument("--sort", choices=["both", "yes", "no"], default="both")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    work = Path(tempfile.mkdtemp(prefix="hoglake-bench-compact-"))
    try:
        with machine.postgres() as pg:
            pg.create("lake")
            with machine.server(pg.url("lake"), HOGLAKE_HYDRATOR_INTERVAL_MS="0", HOGLAKE_LOCAL_FILES="true") as server:
                measure(args, work, Ours(server, pg.url("lake")))
    finally:
        shutil.rmtree(work, ignore_errors=True)


def measure(args, work, ours):
    machine.say("writing the inputs")
    small = work / "small"
    make(small, args.files, args.rows)
    size = sum(path.stat().st_size for path in small.iterdir()) / 1e6
    report = machine.Report(f"Compaction of {args.files} files, {size:.0f} MB, to one: MB/s, and MiB of memory", args.json)
    peaks, out = [], work / "peer.parquet"
    for sorting in [True, False]:
        if args.sort == ("no" if sorting else "yes"):
            continue
        figures = {"ours": [], "DuckDB": [], "pyarrow": []}
        free = machine.cpu_free()
        for _ in range(args.repeats):
            *figure, peak = ours.run(small, args.rows, ("kind", "id") if sorting else ())
            figures["ours"].append(figure)
            peaks.append(peak)
            figures["DuckDB"].append(peer(DUCKDB, small, out, args.threads, " ORDER BY kind, id" if sorting else ""))
            figures["pyarrow"].append(peer(PYARROW_SORTED if sorting else PYARROW, small, out, args.threads))
        seconds = {who: statistics.median([seconds for seconds, _ in of]) for who, of in figures.items()}
        sizes = {who: of[0][1] / 1e6 for who, of in figures.items()}
        best = min(("DuckDB", "pyarrow"), key=seconds.get)
        what = f"{'sorted' if sorting else 'unsorted'} / {best}"
        report.add(what, size / seconds["ours"], size / seconds[best], 1.0 if sorting else 1.5, free=free)
        machine.say(", ".join(f"{who} {seconds[who]:.2f} s, {sizes[who]:.0f} MB" for who in seconds))
    report.add("peak memory / 512 MiB", max(peaks), 512, 1.0, higher_is_better=False)
    if args.times:
        machine.say(f"writing inputs of {args.times} times the size")
        one = work / "one"
        make(one, 4, args.rows * args.times)
        large = work / "large"
        large.mkdir()
        for number in range(args.files):
            os.link(one / f"f{number % 4:04}.parquet", large / f"f{number:04}.parquet")
        shutil.rmtree(one)
        for what, sort in [("sorted", ("kind", "id")), ("unsorted", ())]:
            *_, peak = ours.run(large, args.rows * args.times, sort)
            report.add(f"peak memory, {args.times} times the size, {what} / 512 MiB", peak, 512, 1.0, higher_is_better=False)
    report.finish()
