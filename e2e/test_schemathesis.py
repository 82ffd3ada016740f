"""Schemathesis makes requests up from the contract: no answer is a fault, every answer conforms."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from formats import Store, sample
from lake import Lake, ok
from server import ROOT, Server

HERE = Path(__file__).parent
SECONDS = 150
CONVERSION_SECONDS = 40


@pytest.fixture(scope="module")
def fuzzed(api):
    lake = Lake(api, "fuzzed").create()
    lake.namespace()
    lake.table()
    lake.append(lake.file(10), lake.file(10))
    lake.delete_rows(lake.vector(1, 3))
    ok(lake.post("namespaces", "ns", "views", json={"name": "v", "sql": "SELECT 1"}), 201)
    uuid = ok(lake.get_table())["table_uuid"]
    ok(lake.api.put(lake.url("consumers", "c", "offsets", uuid), json={"snapshot_id": 3}))
    return lake, uuid


def fuzz(contract: str, settings: str, url: str, seconds: int, folder: Path, **env: str) -> None:
    """Fails with what Schemathesis finds."""
    command = [
        Path(sys.executable).parent / "schemathesis",
        *("--config-file", HERE / settings),
        "run",
        ROOT / "openapi" / f"{contract}.yaml",
        *("--url", url),
        *("--max-time", str(seconds)),
        *("--seed", "20260905"),
        *("--max-examples", "60"),
        *("--phases", "examples,coverage,fuzzing,stateful"),
        "--continue-on-failure",
        "--no-shrink",
    ]
    env = {**os.environ, "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "PYTHONPATH": str(HERE), "NO_COLOR": "1", **env}
    run = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=seconds * 2 + 30)
    print(run.stdout[-4000:])
    assert run.returncode == 0, run.stdout[-15000:] + run.stderr[-3000:]


@pytest.mark.timeout(SECONDS * 2 + 60)
def test_made_up_requests(server: Server, fuzzed):
    lake, uuid = fuzzed
    url = f"{server.url}/v1"
    fuzz("catalog", "schemathesis.toml", url, SECONDS, server.state, FUZZ_CATALOG=lake.name, FUZZ_TABLE_UUID=uuid)
    # The lake is still whole: dense history from the floor on, which requests may have moved.
    head, floor = lake.head(), ok(lake.get("options"))["earliest_snapshot_id"]
    pages, after = [], -1
    while True:
        page = ok(lake.get("snapshots", after=after, limit=10000))
        pages += [s["snapshot_id"] for s in page["snapshots"]]
        if not page["has_more"]:
            break
        after = pages[-1]
    assert pages == list(range(floor, head + 1))


@pytest.mark.timeout(CONVERSION_SECONDS * 2 + 60)
def test_made_up_conversions(server: Server):
    """Most of them name a table that is there, in one of its formats or in none of them."""
    store = Store("s3://lake", f"http://{server.s3_endpoint}")
    path = store.write_delta("fuzzed-conversion", sample(0, 20))
    settings = "schemathesis_conversion.toml"
    fuzz("conversion", settings, server.url, CONVERSION_SECONDS, server.state, FUZZ_TABLE_PATH=path)
