"""Conversion on Azure Blob Storage and Google Cloud Storage: `./x verify-stores`. Their emulators are too heavy for every run."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pytest

import emulators
from formats import multiset, sample
from server import BINARY, Server

TABLE = "/v1/conversion/table"


@pytest.fixture(scope="module", params=["azure", "gcs"])
def store(request, tmp_path_factory):
    made = getattr(emulators, request.param)(tmp_path_factory.mktemp(request.param))
    yield made
    made.stop()


def hoglake(store, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([BINARY, *arguments], env=os.environ | store.environment, capture_output=True, text=True, timeout=120)


def synced(store, path: str, target: str, *more: str) -> dict:
    source = "ICEBERG" if target == "DELTA" else "DELTA"
    done = hoglake(store, "sync", "--path", path, "--source", source, "--target", target, "--json", *more)
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = done.stdout.splitlines()
    return json.loads(line)


def same(rows, expected) -> None:
    assert multiset(rows.to_pylist()) == multiset(expected.to_pylist())


def newest(line: dict) -> str:
    return line["metadata-path"]


def test_delta_to_iceberg_and_hudi_and_on(store):
    path = store.write_delta("orders", sample(0, 40), partition_by=["region"])
    same(store.iceberg(newest(synced(store, path, "ICEBERG"))), sample(0, 40))
    synced(store, path, "HUDI")
    store.write_delta("orders", sample(40, 60), mode="append")
    store.delta(path).delete("id < 10")
    for target in ("ICEBERG", "HUDI"):
        outcome = synced(store, path, target)
        assert (outcome["plan"], len(outcome["commits"])) == ("incremental", 2), outcome
        assert synced(store, path, target)["commits"] == []
    inspected = hoglake(store, "inspect", path)
    assert inspected.returncode == 0 and all(f in inspected.stdout for f in ("DELTA", "ICEBERG", "HUDI")), inspected
    again = synced(store, path, "ICEBERG", "--full")
    same(store.iceberg(newest(again)), sample(10, 60))
    back = synced(store, path, "DELTA", "--target-path", f"{path}/back")
    # delta-rs does not read files by absolute paths: those that the log names must be those of the source.
    named = pa.table(store.delta(newest(back)).get_add_actions(flatten=True)).column("path").to_pylist()
    assert {urllib.parse.unquote(n) for n in named} == set(store.delta(path).file_uris())


# PyIceberg cannot write through the emulator of Google's: it uploads in chunks.
@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_an_iceberg_table_of_pyiceberg_to_delta(store, tmp_path):
    table = store.write_iceberg("events", sample(0, 30), tmp_path)
    delta = newest(synced(store, store.at("events"), "DELTA"))
    same(store.delta(delta).to_pyarrow_table(), sample(0, 30))
    table.append(sample(30, 35))
    table.delete("id >= 32")
    synced(store, store.at("events"), "DELTA")
    same(store.delta(delta).to_pyarrow_table(), sample(0, 32))


def test_over_rest_with_credentials_of_the_request(store):
    path = store.write_delta("rest", sample(0, 20))
    flags = ("--conversion-roots", store.prefix, "--conversion-endpoints", store.endpoint)
    with Server(flags=flags) as server, httpx.Client(base_url=server.url, timeout=60) as api:
        ask = {"source-format": "DELTA", "source-table-name": "rest", "source-table-path": path, "target-formats": ["ICEBERG"]}
        done = api.post(TABLE, json=ask | {"configurations": store.configurations})
        assert done.status_code == 200, done.text
        (target,) = done.json()["conversions"]
        same(store.iceberg(target["target-metadata-path"]), sample(0, 20))
        if "azure.access-key" in store.configurations:
            wrong = store.configurations | {"azure.access-key": "d3Jvbmc="}
            denied = api.post(TABLE, json=ask | {"configurations": wrong})
            assert (denied.status_code, denied.json()["type"]) == (403, "store_denied"), denied.text
        outside = api.post(TABLE, json=ask | {"source-table-path": "abfss://other@elsewhere.dfs.core.windows.net/t"})
        assert outside.status_code == 403, outside.text


# Not on Google's: the emulator takes any write for the first, https://github.com/fsouza/fake-gcs-server/issues/994
@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_writers_that_race_lose_nothing(store):
    path = store.write_delta("raced", sample(0, 1))
    for n in range(1, 12):
        store.write_delta("raced", sample(n, n + 1), mode="append")
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: hoglake(store, "sync", "--path", path, "--source", "DELTA", "--target", "ICEBERG"), range(4)))
    assert any(run.returncode == 0 for run in runs), runs
    store.write_delta("raced", sample(12, 13), mode="append")
    same(store.iceberg(newest(synced(store, path, "ICEBERG"))), sample(0, 13))


def test_without_credentials_the_error_says_what_to_set(store):
    bare = {k: v for k, v in os.environ.items() if not k.startswith(("AZURE_", "GOOGLE_", "HOGLAKE_"))}
    done = subprocess.run([BINARY, "inspect", store.at("orders")], env=bare, capture_output=True, text=True, timeout=120)
    remedy = "AZURE_STORAGE_KEY" if store.prefix.startswith("abfss:") else "GOOGLE_APPLICATION_CREDENTIALS"
    assert done.returncode != 0 and "there are no credentials for" in done.stderr and remedy in done.stderr, done
