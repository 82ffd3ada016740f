"""Kill -9 and start again: what was answered is there, what was not is there once or not at all."""

import os
import signal
import subprocess
import threading
import time
import uuid

import httpx
import pytest

from lake import Lake, client, ok
from server import BINARY, Server, free_port

WRITERS = 6
KILLS = 3


@pytest.fixture
def own():
    with Server() as server:
        with client(server.url) as api:
            lake = Lake(api, "restarts").create()
            lake.namespace()
            lake.table()
        yield server


def seen(server) -> tuple[list[dict], list[dict]]:
    """All snapshots and all files."""
    with client(server.url) as api:
        lake = Lake(api, "restarts")
        snapshots = ok(lake.get("snapshots", after=-1, limit=10000))["snapshots"]
        assert [s["snapshot_id"] for s in snapshots] == list(range(lake.head() + 1)), "dense"
        times = [s["snapshot_time"] for s in snapshots]
        assert times == sorted(times), "monotone"
        return snapshots, lake.files()


def postmaster(server) -> int:
    return int((server.state / "state" / "data" / "postmaster.pid").read_text().split()[0])


def write_until(server, stop: threading.Event, n: int, answered: dict[str, int]) -> None:
    """Commits one file after the other, each under a key, repeated until it is answered."""
    count = 0
    while not stop.is_set():
        message, key = f"{n}:{count}", str(uuid.uuid4())
        file = {"path": f"s3://lake/restarts/{n}/{count}", "record_count": 3, "file_size_bytes": 1, "column_stats": []}
        body = {"appends": [{"namespace": "ns", "table": "t", "files": [file]}], "message": message}
        for _ in range(400):
            try:
                response = httpx.post(
                    f"{server.url}/v1/catalogs/restarts/commit", json=body, headers={"Idempotency-Key": key}, timeout=20
                )
            except httpx.TransportError:
                time.sleep(0.1)
                continue
            if response.status_code == 503:
                time.sleep(0.1)
                continue
            answered[message] = ok(response)["snapshot_id"]
            break
        else:
            raise AssertionError(f"{message} was never answered")
        count += 1


@pytest.mark.parametrize("victim", ["server", "postgres"])
def test_kills_in_the_middle_of_commits(own, victim):
    stop, answered = threading.Event(), {}
    threads = [threading.Thread(target=write_until, args=(own, stop, n, answered)) for n in range(WRITERS)]
    for thread in threads:
        thread.start()
    for _ in range(KILLS):
        time.sleep(0.7)
        if victim == "server":
            own.kill()
            own.start()
        else:
            os.kill(postmaster(own), signal.SIGKILL)
            time.sleep(0.5)
            if own.process.poll() is not None:
                own.process = None
                own.start()
            else:
                own.wait_until_ready()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    snapshots, files = seen(own)
    made = {s["message"]: s["snapshot_id"] for s in snapshots if "message" in s}
    assert len(made) == sum("message" in s for s in snapshots), "a repeated commit was written twice"
    assert answered == made, "what was answered is what is there"
    assert [f["row_id_start"] for f in sorted(files, key=lambda f: f["data_file_id"])] == [3 * n for n in range(len(made))]
    assert len(made) > WRITERS * KILLS


def test_a_state_folder_belongs_to_one_server(own):
    command = [BINARY, "dev", "--listen", f"127.0.0.1:{free_port()}", "--s3-listen", f"127.0.0.1:{free_port()}"]
    run = subprocess.run([*command, "--state-dir", own.state / "state"], capture_output=True, text=True, timeout=60)
    assert run.returncode != 0 and "state" in run.stderr
    assert httpx.get(f"{own.url}/healthz").status_code == 200


def test_a_stop_leaves_nothing_behind(own):
    pid = postmaster(own)
    assert own.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert own.faults() == []
    own.start()
    assert len(seen(own)[0]) == 3
