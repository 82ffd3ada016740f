"""Conversion: metadata of large tables from Delta to Iceberg and back, against what engines need merely to list them.

    bench/run convert [--files 100000] [--large 1000000] [--repeats 3] [--xtable CMD] [--polytable CMD] [--json FILE]

The Delta table is made up: a log with statistics, once as commits alone and once with a checkpoint. Peers are delta-rs
(`deltalake`), which opens the table and lists its files with statistics, and PyIceberg, which plans a scan of the converted
table; each run is a process of its own, and their time counts from the imports on. `--xtable` and `--polytable` take the
command of another converter, with {table}, {source} and {target} in it, run through the shell on a copy of the table. XTable
takes them in a file: let the command write `sourceFormat`, `targetFormats` and `datasets` with `tableBasePath` and `tableName`
there, and then call its RunSync with `--datasetConfig`.
"""
import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lake
import machine
from delta_table import filled

DELTA_RS = """
import json, sys, time
from deltalake import DeltaTable
begin = time.perf_counter()
table = DeltaTable(sys.argv[1])
actions = table.get_add_actions(flatten=True)
print(json.dumps({"files": actions.num_rows, "seconds": time.perf_counter() - begin}))
"""
PYICEBERG = """
import json, sys, time
from pyiceberg.table import StaticTable
begin = time.perf_counter()
table = StaticTable.from_metadata(sys.argv[1])
files = sum(1 for _ in table.scan().plan_files())
print(json.dumps({"files": files, "seconds": time.perf_counter() - begin}))
"""
CHECKPOINT = "import sys; from deltalake import DeltaTable; DeltaTable(sys.argv[1]).create_checkpoint()"


def python(code, *arguments):
    """Runs a peer in a process of its own; what it printed."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout) if done.stdout.strip() else None


class Run:
    """One `hoglake sync`, start to exit."""

    def __init__(self, path, source, target, *flags, target_path=None):
        command = [machine.HOGLAKE, "sync", "--source", source, "--path", path, "--target", target, "--json", *flags]
        if target_path:
            command += ["--target-path", target_path]
        begin = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        peak = machine.Peak(process)
        out, err = process.communicate()
        self.seconds = time.perf_counter() - begin
        self.rss_mib = peak.mib
        if process.returncode:
            sys.exit(f"hoglake sync failed:\n{out[-2000:]}{err[-2000:]}")
        self.report = json.loads(out.splitlines()[-1])


def without_metadata(table, *folders):
    for folder in folders:
        shutil.rmtree(Path(table) / folder, ignore_errors=True)


def full(report, name, table, files, repeats):
    """Delta to Iceberg, all files; leaves the Iceberg metadata behind."""
    ours, peers, memory = [], [], 0
    for _ in range(repeats):
        without_metadata(table, "metadata")
        free = machine.cpu_free()
        peer = python(DELTA_RS, table)
        assert peer["files"] == files, peer
        run = Run(table, "DELTA", "ICEBERG")
        commits = run.report["commits"]
        assert sum(c["added"] for c in commits) == files, run.report
        ours.append(run.seconds)
        peers.append(peer["seconds"])
        memory = max(memory, run.rss_mib)
    report.add(f"Delta to Iceberg, {name} (s; delta-rs lists)", statistics.median(ours), statistics.median(peers), 1.5, False, free)
    return statistics.median(ours), run.report["metadata-path"], memory


def back(report, table, metadata, files, repeats):
    """Iceberg to Delta, all files, against PyIceberg's plan."""
    ours, peers = [], []
    for number in range(repeats):
        target = Path(table).parent / f"back-{number}"
        peer = python(PYICEBERG, metadata)
        assert peer["files"] == files, peer
        run = Run(metadata.removeprefix("file://"), "ICEBERG", "DELTA", target_path=target)
        assert sum(c["added"] for c in run.report["commits"]) == files, run.report
        ours.append(run.seconds)
        peers.append(peer["seconds"])
        shutil.rmtree(target)
    report.add("Iceberg to Delta (s; PyIceberg plans)", statistics.median(ours), statistics.median(peers), 0.5, False, machine.cpu_free())


def following(report, table, whole, repeats):
    """One more commit, and none."""
    steps, nothing = [], []
    for _ in range(repeats):
        table.append(10)
        run = Run(table.folder, "DELTA", "ICEBERG")
        assert run.report["plan"] == "incremental" and len(run.report["commits"]) == 1, run.report
        steps.append(run.seconds)
        run = Run(table.folder, "DELTA", "ICEBERG")
        assert run.report["status"] == "no-change", run.report
        nothing.append(run.seconds)
    report.add("one commit more (s; the whole)", statistics.median(steps), whole, 0.05, False, machine.cpu_free())
    report.add("no commit more (s; the whole)", statistics.median(nothing), whole, 0.05, False)


def small(report, folder, repeats):
    """A small table from start to exit, beside `hoglake --version`."""
    synced, version = [], []
    for number in range(repeats * 3):
        table = filled(Path(folder) / f"small-{number}", 10, 5)
        begin = time.perf_counter()
        subprocess.run([machine.HOGLAKE, "--version"], check=True, stdout=subprocess.DEVNULL)
        version.append((time.perf_counter() - begin) * 1000)
        synced.append(Run(table.folder, "DELTA", "ICEBERG").seconds * 1000)
    more = statistics.median(synced) - statistics.median(version)
    report.add("a small table, more than --version (ms)", more, 50, 1, False, machine.cpu_free())


def other(report, name, command, table, ours):
    """Another converter on a copy of the same table."""
    copy = Path(table).parent / f"for-{name}"
    shutil.copytree(table, copy, ignore=shutil.ignore_patterns("metadata"))
    begin = time.perf_counter()
    done = subprocess.run(command.format(table=copy, source="DELTA", target="ICEBERG"), shell=True, capture_output=True, text=True)
    seconds = time.perf_counter() - begin
    # XTable exits with 0 when it fails.
    if done.returncode or not any((copy / "metadata").glob("*.metadata.json")):
        sys.exit(f"{name} failed:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    report.add(f"Delta to Iceberg, with checkpoint (s; {name})", ours, seconds, 1, False, machine.cpu_free())


def main(argv):
    lake.inside_venv("convert")
    parser = argparse.ArgumentParser(prog="bench/run convert")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--large", type=int, default=1_000_000, help="files of the table whose memory is measured; 0 leaves it out")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--xtable", metavar="CMD", help="such as: ./xtable.sh {source} {target} {table}")
    parser.add_argument("--polytable", metavar="CMD")
    parser.add_argument("--work", help="folder for the tables, kept afterwards [default: a temporary one]")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    report = machine.Report(f"Conversion of {args.files:,} files, against engines that list them", args.json)
    with tempfile.TemporaryDirectory(prefix="hoglake-bench-") as temporary:
        folder = Path(args.work or temporary)
        machine.say("making the tables")
        plain = filled(folder / "plain", args.files)
        shutil.copytree(plain.folder, folder / "checkpoint")
        python(CHECKPOINT, folder / "checkpoint")
        full(report, "commits only", plain.folder, args.files, args.repeats)
        whole, metadata, memory = full(report, "with checkpoint", folder / "checkpoint", args.files, args.repeats)
        report.add("memory, with checkpoint (MiB)", memory, 300, 1, False)
        back(report, folder / "checkpoint", metadata, args.files, args.repeats)
        plain.folder, plain.log = folder / "checkpoint", folder / "checkpoint" / "_delta_log"
        following(report, plain, whole, args.repeats)
        small(report, folder, args.repeats)
        for name in ("xtable", "polytable"):
            if command := getattr(args, name):
                other(report, name, command, folder / "checkpoint", whole)
        if args.large:
            shutil.rmtree(folder / "plain")
            machine.say(f"making a table of {args.large:,} files")
            large = filled(folder / "large", args.large, 10_000)
            python(CHECKPOINT, large.folder)
            run = Run(large.folder, "DELTA", "ICEBERG")
            report.add(f"memory, {args.large:,} files (MiB)", run.rss_mib, 300, 1, False)
            metadata = run.report["metadata-path"].removeprefix("file://")
            run = Run(metadata, "ICEBERG", "DELTA", target_path=folder / "large-back")
            report.add(f"memory, {args.large:,} files back (MiB)", run.rss_mib, 300, 1, False)
            # What the other direction wrote is one commit of all files; without its checkpoint, the table is commits alone.
            shutil.rmtree(large.folder / "metadata")
            for file in [*large.log.glob("*.checkpoint.parquet"), large.log / "_last_checkpoint"]:
                file.unlink()
            for shape, table in (("in commits alone", large.folder), ("in one commit", folder / "large-back")):
                run = Run(table, "DELTA", "ICEBERG")
                assert sum(c["added"] for c in run.report["commits"]) == args.large, run.report
                report.add(f"memory, {args.large:,} files {shape} (MiB)", run.rss_mib, 300, 1, False)
    report.finish()
