"""Two converters of one target at the same time: whoever loses plans again, every commit is made once, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import threading

import httpx
import pytest

from formats import KEY, REGION, SECRET, Store, multiset, sample
from server import BINARY, Server

ROUNDS = 10
COMMITS = 3


@pytest.fixture(scope="module")
def converter():
    with Server(flags=("--conversion-roots", "s3://lake/raced")) as server:
        yield server
        # The object store of `hoglake dev` has been seen to answer 500 to one of requests that meet; clients ask again.
        faults = [line for line in server.faults() if '"target":"s3s' not in line]
        assert server.stop() == 0 and not faults, "\n".join(faults[:20])


@pytest.fixture(scope="module")
def store(converter) -> Store:
    return Store("s3://lake/raced", f"http://{converter.s3_endpoint}")


def begin(store: Store, source: str, path: str, target: str, *more: str) -> subprocess.Popen:
    """`hoglake sync` as a process of its own."""
    of_store = {
        "HOGLAKE_S3_ENDPOINT": store.endpoint,
        "HOGLAKE_S3_REGION": REGION,
        "HOGLAKE_S3_ACCESS_KEY": KEY,
        "HOGLAKE_S3_SECRET_KEY": SECRET,
    }
    command = [BINARY, "sync", "--source", source, "--path", path, "--target", target, "--json", *more]
    return subprocess.Popen(command, env={**os.environ, **of_store}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen) -> dict:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, f"{out} {err}"
    return json.loads(out)


def by_server(converter: Server, path: str, target: str) -> dict:
    """The same over REST."""
    request = {"source-format": "DELTA", "source-table-name": "t", "source-table-path": path, "target-formats": [target]}
    answer = httpx.post(f"{converter.url}/v1/conversion/table", json=request, timeout=120)
    assert answer.status_code == 200, answer.text
    (made,) = answer.json()["conversions"]
    return {"commits": [None] * made["commits"], "metadata-path": made["target-metadata-path"]}


def raced(converter: Server, store: Store, path: str, target: str, rivals: str) -> list[dict]:
    """What two that began together say of what they did."""
    if rivals == "processes":
        return [ended(process) for process in [begin(store, "DELTA", path, target) for _ in range(2)]]
    said: list[dict] = []
    thread = threading.Thread(target=lambda: said.append(by_server(converter, path, target)))
    process = begin(store, "DELTA", path, target)
    thread.start()
    said.append(ended(process))
    thread.join()
    assert len(said) == 2, "the server's conversion failed"
    return said


def read(store: Store, target: str, path: str, metadata_path: str) -> dict[str, list[dict]]:
    if target == "ICEBERG":
        return store.read(target, metadata_path)
    # Hudi targets are read by way of a third format; Spark reads them in `./x verify-spark`.
    again = ended(begin(store, "HUDI", path, "ICEBERG", "--target-path", f"{path}-again"))
    return store.read("ICEBERG", again["metadata-path"])


def newest(said: list[dict]) -> str:
    """Of two metadata files the later one; whoever lost may have seen an earlier one as the newest."""
    paths = {report["metadata-path"] for report in said}
    return paths.pop() if len(paths) == 1 else max(paths, key=lambda path: int(path.rsplit("/v", 1)[1].split(".")[0]))


@pytest.mark.parametrize("target", ["ICEBERG", "HUDI"])
@pytest.mark.parametrize("rivals", ["processes", "process and server"])
def test_of_two_converters_one_wins_and_nothing_is_lost(converter, store, target, rivals):
    name = f"{target}-{rivals.replace(' ', '-')}"
    path = store.write_delta(name, sample(0, 10), partition_by=["region"])
    made = 0
    both_worked = 0
    for number in range(ROUNDS):
        said = raced(converter, store, path, target, rivals)
        counts = [len(report["commits"]) for report in said]
        made += sum(counts)
        both_worked += min(counts) > 0
        rows = store.delta(path).to_pyarrow_table().to_pylist()
        for engine, seen in read(store, target, path, newest(said)).items():
            assert multiset(seen) == multiset(rows), f"round {number}: {engine}"
        for more in range(COMMITS):
            start = 10 + (number * COMMITS + more) * 4
            store.write_delta(name, sample(start, start + 4), mode="append")
        store.delta(path).delete(f"id = {number}")
    # One commit creates the target; every other is one of the source.
    assert made == 1 + (ROUNDS - 1) * (COMMITS + 1), f"{made} commits, both worked in {both_worked} rounds"
