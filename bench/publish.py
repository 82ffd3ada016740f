"""Publications against a bare librdkafka loop that produces the same records to the same broker in the same run; memory on one
file of a GiB with a single row group; and a steady load of 50 commits a second, with publications and without.

Needs Java and the jars that `./x setup` fetches, pyarrow and confluent-kafka (bench/requirements.txt, or .venv).
"""
import argparse
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from decimal import Decimal
from pathlib import Path

import lake
import machine

sys.path.insert(0, str(machine.ROOT / "e2e"))

BARE = machine.TARGET / "release" / "bare-producer"
COLUMNS = [
    {"name": "id", "type": "long"}, {"name": "line", "type": "string"}, {"name": "station", "type": "string"},
    {"name": "fare", "type": "double"}, {"name": "amount", "type": "decimal", "type_params": {"precision": 12, "scale": 2}},
    {"name": "at", "type": "timestamptz"}, {"name": "note", "type": "string"}, {"name": "flag", "type": "boolean"},
]


def rows(count):
    import pyarrow as pa
    random_ = random.Random(7)
    words = [f"some words about trip number {i} of the day" for i in range(10_000)]
    return pa.table({
        "id": pa.array(range(count), pa.int64()),
        "line": [f"U{i % 9}" for i in range(count)],
        "station": [words[random_.randrange(500)] for _ in range(count)],
        "fare": [random_.random() * 100 for _ in range(count)],
        "amount": pa.array([Decimal(random_.randrange(10**9)).scaleb(-2) for _ in range(count)], pa.decimal128(12, 2)),
        "at": pa.array([1_700_000_000_000_000 + i * 1000 for i in range(count)], pa.timestamp("us", tz="UTC")),
        "note": [words[random_.randrange(10_000)] for _ in range(count)],
        "flag": [i % 3 == 0 for i in range(count)],
    })


def write(table, path, **options):
    """Writes a file whose columns carry field ids, and gives its registration."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    fields = [f.with_metadata({"PARQUET:field_id": str(i + 1)}) for i, f in enumerate(table.schema)]
    pq.write_table(table.cast(pa.schema(fields)), path, **options)
    return {"path": f"file://{path}", "record_count": table.num_rows, "file_size_bytes": path.stat().st_size,
            "footer_size": pq.read_metadata(path).serialized_size, "column_stats": []}


def commit(server, table, file):
    server.call("POST", "/catalogs/bench/commit", {"appends": [{"namespace": "bench", "table": table, "files": [file]}]})


def publish(server, broker, name, table, topic, format_):
    sink = {"type": "kafka", "bootstrap_servers": broker.address, "topic": topic, "format": format_}
    body = {"name": name, "namespace": "bench", "table": table, "sink": sink, "from_snapshot": 0}
    server.call("POST", "/catalogs/bench/publications", body)


def head(server):
    return server.call("GET", "/catalogs/bench")["head_snapshot_id"]


def wait_published(server, name, wanted):
    deadline = time.monotonic() + 300
    while True:
        shown = server.call("GET", f"/catalogs/bench/publications/{name}")
        if shown["committed_snapshot"] >= wanted:
            return
        if shown["state"] == "halted" or time.monotonic() > deadline:
            raise SystemExit(shown.get("last_error", "the publication does not get on"))
        time.sleep(0.005)


def metric(server, name):
    with machine.urllib.request.urlopen(f"http://{server.address}/metrics") as answer:
        text = answer.read().decode()
    return re.findall(rf"^{name}(\S*) (\S+)$", text, re.M)


def peak_mib(server):
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def rates(server, broker, report, folder, count):
    for format_ in ("json", "arrow_ipc"):
        table = f"t{0 if format_ == 'json' else 1}"
        partitions = 3 if format_ == "json" else 1
        file = write(rows(count), folder / f"{format_}.parquet")
        topic = broker.topic(format_, partitions)
        publish(server, broker, format_, table, topic, format_)
        time.sleep(1.5)
        ours, bare = [], []
        for run in range(3):
            again = broker.topic(f"{format_}-{run}-bare", partitions)
            free = machine.cpu_free()
            begun = time.monotonic()
            commit(server, table, file)
            wait_published(server, format_, head(server))
            ours.append(time.monotonic() - begun)
            command = [BARE, "--brokers", broker.address, "--from", topic, "--to", again]
            made = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            # the topic holds the records of all runs so far
            bare.append(made["seconds"] / (run + 1))
        rate = lambda seconds: made["bytes"] / len(ours) / 2**20 / statistics.median(seconds)
        report.add(f"{format_}: MiB/s of {count} rows", rate(ours), rate(bare), 0.7, free=free)


def memory(server, broker, report, folder):
    import pyarrow as pa
    count = 1 << 20
    random_bytes = b"".join(os.urandom(1 << 20) for _ in range(1 << 10))
    data = pa.Array.from_buffers(pa.binary(1024), count, [None, pa.py_buffer(random_bytes)]).cast(pa.binary())
    table = pa.table({"id": pa.array(range(count), pa.int64()), "data": data})
    server.call("POST", "/catalogs/bench/namespaces/bench/tables",
                {"name": "large", "columns": [{"name": "id", "type": "long"}, {"name": "data", "type": "binary"}]})
    file = write(table, folder / "large.parquet", row_group_size=count, use_dictionary=False, compression="none")
    del table, data, random_bytes
    topic = broker.topic("large", 1)
    publish(server, broker, "large", "large", topic, "arrow_ipc")
    commit(server, "large", file)
    wait_published(server, "large", head(server))
    megabytes = file["file_size_bytes"] / 2**20
    report.add(f"peak memory (MiB), a file of {megabytes:.0f} MiB in one row group", peak_mib(server), 256, 1, higher_is_better=False)


def steady(server, file, table, seconds):
    """Open loop: 50 commits a second over 4 connections; latencies in ms."""
    latencies, lock = [], threading.Lock()
    body = json.dumps({"appends": [{"namespace": "bench", "table": table, "files": [file]}]})
    begun = time.monotonic()

    def writer(n):
        connection = http.client.HTTPConnection(server.address)
        for i in range(n, int(seconds * 50), 4):
            time.sleep(max(0, begun + i / 50 - time.monotonic()))
            sent = time.monotonic()
            connection.request("POST", "/v1/catalogs/bench/commit", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            with lock:
                latencies.append((time.monotonic() - sent) * 1000)

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    return latencies


def delays(server):
    return {match[0]: float(match[1]) for match in metric(server, "hoglake_publication_delay_seconds_bucket")}


def main(argv):
    lake.inside_venv("publish")
    parser = argparse.ArgumentParser(prog="bench/run publish")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    from broker import Broker
    report = machine.Report("Publications against a bare librdkafka loop", args.json)
    folder = Path(tempfile.mkdtemp(prefix="hoglake-bench-"))
    try:
        with machine.postgres() as pg, Broker() as broker:
            pg.create("lake")
            with machine.server(pg.url("lake"), HOGLAKE_LOCAL_FILES="true") as server:
                machine.table(server, "bench", f"file://{folder}", tables=0)
                for i in range(4):
                    server.call("POST", "/catalogs/bench/namespaces/bench/tables", {"name": f"t{i}", "columns": COLUMNS})
                small = write(rows(100), folder / "small.parquet")
                steady(server, small, "t2", 2)
                without = steady(server, small, "t2", args.seconds)
                topic = broker.topic("steady", 3)
                publish(server, broker, "steady", "t3", topic, "json")
                commit(server, "t3", small)
                wait_published(server, "steady", head(server))
                before = delays(server)
                free = machine.cpu_free()
                with_ = steady(server, small, "t3", args.seconds)
                wait_published(server, "steady", head(server))
                after = delays(server)
                counts = {le: after[le] - before.get(le, 0) for le in after}
                total = max(counts.values())
                within = min((float(re.search(r'le="([^"]+)"', le)[1]) for le, n in counts.items() if n >= 0.99 * total), default=float("inf"))
                report.add("commit to acknowledged, p99 at most (s)", within, 1, 1, higher_is_better=False, free=free)
                p99 = lambda values: machine.quantile(values, 0.99)
                report.add("p99 of a commit with / without publications (ms)", p99(with_), p99(without), 1.3, higher_is_better=False, free=free)
                rates(server, broker, report, folder, args.rows)
            with machine.server(pg.url("lake"), HOGLAKE_LOCAL_FILES="true") as server:
                memory(server, broker, report, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    report.finish()
