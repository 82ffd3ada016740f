"""Against DuckLake on the same Postgres, and pyhoglake's append against pyarrow's bare write.

Runs itself again inside a virtual environment of its own (target/bench-venv), made from requirements.txt.
"""
import argparse
import multiprocessing
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import lake
import machine

COLUMNS = ("id bigint, ts timestamp, user_id bigint, kind varchar, amount double, price decimal(18,2), flag boolean, "
           "name varchar, payload varchar, day date")


def mixed(rows):
    """Rows of ten mixed columns, the types of COLUMNS."""
    from decimal import Decimal

    import numpy as np
    import pyarrow as pa
    random = np.random.default_rng(7)
    ids = np.arange(rows)
    kinds = np.array(["view", "click", "buy", "return", "signup", "login", "logout", "error"])
    return pa.table({
        "id": pa.array(ids),
        "ts": pa.array(1_700_000_000_000_000 + ids * 1000).cast(pa.timestamp("us")),
        "user_id": pa.array(random.integers(0, 1_000_000, rows)),
        "kind": pa.array(kinds[random.integers(0, 8, rows)]),
        "amount": pa.array(random.gamma(2.0, 50.0, rows)),
        "price": pa.array([Decimal(int(n)).scaleb(-2) for n in random.integers(0, 10_000_000, rows)], pa.decimal128(18, 2)),
        "flag": pa.array(random.random(rows) < 0.3),
        "name": pa.array([f"item-{n:05d}" for n in random.integers(0, 5000, rows)]),
        "payload": pa.array([random.bytes(16).hex() for _ in range(rows)]),
        "day": pa.array((19000 + ids // 86400 % 365).astype("int32")).cast(pa.date32()),
    })


def ducklake(dsn, data):
    import glob
    import importlib

    import duckdb
    connection = duckdb.connect()
    for name in ("postgres_scanner", "ducklake"):
        package = importlib.import_module(f"duckdb_extension_{name}")
        (path,) = glob.glob(f"{Path(package.__file__).parent}/**/{name}.duckdb_extension", recursive=True)
        connection.execute(f"load '{path}'")
    connection.execute("set threads = 1")
    connection.execute(f"attach 'ducklake:postgres:{dsn}' as lake (data_path '{data}')")
    return connection


def register(dsn, data, files, table, seconds, ready, results):
    connection = ducklake(dsn, data)
    ready.wait()
    started, done = time.monotonic(), 0
    for path in files:
        if time.monotonic() - started > seconds:
            break
        try:
            connection.execute(f"call ducklake_add_data_files('lake', 't{table}', '{path}')")
            done += 1
        except Exception as error:
            if "conflict" not in str(error).lower() and "retry" not in str(error).lower():
                raise
    results.put(done / (time.monotonic() - started))


def ducklake_rate(dsn, folder, writers, tables, seconds):
    """Files a second that `writers` processes register, spread over `tables` tables; lost conflicts are not counted."""
    import pyarrow.parquet as pq
    each = int(seconds * 120)
    data = Path(folder) / f"ducklake{writers}-{tables}"
    data.mkdir()
    pq.write_table(mixed(10), data / "one.parquet")
    content = (data / "one.parquet").read_bytes()
    files = []
    for worker in range(writers):
        paths = [data / f"{worker}-{i}.parquet" for i in range(each)]
        for path in paths:
            path.write_bytes(content)
        files.append(paths)
    connection = ducklake(dsn, data)
    for table in range(tables):
        connection.execute(f"create table if not exists lake.t{table} ({COLUMNS})")
    connection.close()
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(writers), context.Queue()
    workers = [context.Process(target=register, args=(dsn, data, files[w], w % tables, seconds, ready, results)) for w in range(writers)]
    for worker in workers:
        worker.start()
    rates = [results.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(rates)


def append_rates(folder, rows, rounds):
    """Rows a second: pyhoglake's append through `hoglake dev`; pyarrow writing and syncing the same rows; pyarrow writing
    them to memory and putting them on the same endpoint, which is an append without its catalog."""
    import io

    import pyarrow.fs as pfs
    import pyarrow.parquet as pq
    from pyhoglake import HoglakeClient, S3Config
    table = mixed(rows)
    http, s3 = machine.free_port(), machine.free_port()
    server = subprocess.Popen([machine.HOGLAKE, "dev", "--state-dir", f"{folder}/dev", "--listen", f"127.0.0.1:{http}",
                               "--s3-listen", f"127.0.0.1:{s3}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        config = S3Config(access_key="hoglake", secret_key="hoglake123", region="us-east-1",
                          endpoint_override=f"http://127.0.0.1:{s3}")
        client = HoglakeClient(f"http://127.0.0.1:{http}", s3=config)
        for _ in range(400):
            try:
                catalog = client.create_catalog("bench", "s3://lake/bench")
                break
            except Exception:
                time.sleep(0.05)
        target = catalog.create_namespace("n").create_table("t", table.schema)
        target.append(table)
        store = pfs.S3FileSystem(access_key="hoglake", secret_key="hoglake123", region="us-east-1",
                                 endpoint_override=f"http://127.0.0.1:{s3}")
        bare, puts, appends = [], [], []
        for i in range(rounds):
            path = f"{folder}/bare-{i}.parquet"
            started = time.monotonic()
            with open(path, "wb") as file:
                pq.write_table(table, file)
                file.flush()
                os.fdatasync(file.fileno())
            bare.append(time.monotonic() - started)
            started = time.monotonic()
            content = io.BytesIO()
            pq.write_table(table, content)
            with store.open_output_stream(f"lake/bench/bare-{i}.parquet") as out:
                out.write(content.getvalue())
            puts.append(time.monotonic() - started)
            started = time.monotonic()
            target.append(table)
            appends.append(time.monotonic() - started)
        return rows / statistics.median(appends), rows / statistics.median(bare), rows / statistics.median(puts)
    finally:
        server.terminate()
        server.wait(30)


def main(argv):
    lake.inside_venv("peers")
    parser = argparse.ArgumentParser(prog="bench/run peers")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    report = machine.Report("Against DuckLake on the same Postgres (registrations/s), and pyarrow (rows/s)", args.json)
    with machine.postgres() as pg, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        pg.create("lake")
        with machine.server(pg.url("lake")) as server:
            machine.table(server, "bench", "s3://lake/bench", tables=8)
            for writers, tables, goal in ((1, 1, 10), (8, 1, 70), (8, 8, None)):
                pg.create(f"dl{writers}_{tables}")
                dsn = f"host={pg.root} port={pg.port} user=postgres dbname=dl{writers}_{tables}"
                free = machine.cpu_free()
                ours = machine.load(server, "bench", "s3://lake/bench", writers=writers, tables=tables, seconds=args.seconds)
                theirs = ducklake_rate(dsn, folder, writers, tables, args.seconds)
                report.add(f"{writers} writers, {tables} tables / DuckLake add_data_files", ours["commits_per_second"], theirs, goal, free=free)
        ours, bare, put = append_rates(folder, 100_000, 7)
        report.add("pyhoglake append of 100,000 rows / pyarrow", ours, bare, 0.9)
        report.add("the same / pyarrow to the same endpoint", ours, put, 0.9)
    report.finish()
