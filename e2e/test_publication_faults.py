"""Publications while everything around them dies: no gap, no loss, and a table that can be rebuilt."""

import json
import pathlib
import re
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass

import httpx
import pyarrow as pa
import pytest
from pyhoglake import HoglakeClient
from pyhoglake.errors import HoglakeError

import puffin
from broker import Broker
from conftest import S3_KEY, S3_SECRET
from lake import Lake, client, ok
from publications import (
    Definitions,
    create,
    from_duckdb,
    from_json,
    put,
    records,
    resume,
    same,
    show,
    wait_halted,
    wait_published,
    wait_until,
)
from server import BINARY, ROOT, Server
from test_restore_drill import Postgres

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])
LEASE_SECONDS = 3
POINTS = re.findall(r'"(publication\.\w+)"', (ROOT / "crates/catalog/src/fault.rs").read_text())


@dataclass
class Serving(Server):
    """`hoglake serve` on a Postgres and an object store of others."""

    def command(self) -> list:
        return [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}", *self.flags]


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def postgres():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="hoglake-publications-"))
    made = Postgres(folder)
    made.create()
    made.start()
    made.sql("create database lake", "postgres")
    yield made
    made.stop("immediate")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def made_servers(server, postgres):
    """Makes servers that share the database; without `publishes` one only answers."""
    made = []

    def serving(publishes: bool = True, **env: str) -> Serving:
        settings = {
            "HOGLAKE_DATABASE_URL": postgres.url,
            "HOGLAKE_S3_ENDPOINT": f"http://{server.s3_endpoint}",
            "HOGLAKE_S3_ACCESS_KEY": S3_KEY,
            "HOGLAKE_S3_SECRET_KEY": S3_SECRET,
            "HOGLAKE_EXPIRY_INTERVAL_MS": "0",
            "HOGLAKE_PUBLICATION_INTERVAL_MS": "50" if publishes else "0",
            "HOGLAKE_PUBLICATION_LEASE_MS": str(LEASE_SECONDS * 1000),
        }
        made.append(Serving(env=settings | env))
        return made[-1]

    yield serving, made
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def answering(made_servers):
    """A server that publishes nothing, for commits and questions."""
    return made_servers[0](publishes=False).start()


@pytest.fixture
def serving(answering, made_servers):
    """Makes servers that end with the test."""
    make, made = made_servers
    before = len(made)
    yield make
    while len(made) > before:
        made.pop().stop()


@pytest.fixture
def lake(answering, s3, name):
    with client(answering.url) as api, HoglakeClient(answering.url, s3=s3) as hog:
        made = Lake(api, name, f"s3://lake/faults-{name}")
        made.hog_table = hog.create_catalog(name, made.data_path).create_namespace("ns").create_table("t", SCHEMA)
        made.next_id = 0
        yield made
        if show_all := ok(made.get("publications")):
            for publication in show_all:
                ok(made.delete("publications", publication["name"]), 204)
        made.verify()


def append(lake, rows: int = 5) -> None:
    ids = list(range(lake.next_id, lake.next_id + rows))
    lake.next_id += rows
    lake.hog_table.append(pa.table({"id": ids, "note": [f"n{i}" for i in ids]}, schema=SCHEMA))


def delete_first(lake, filesystem) -> None:
    """Deletes the first row of the newest file."""
    file = max(lake.files(), key=lambda f: f["row_id_start"])
    raw = puffin.file([0], file["path"])
    entry = lake.vector(file["data_file_id"], 1, file_size_bytes=len(raw))
    put(filesystem, entry["path"], raw)
    lake.delete_rows(entry)


def rebuilt_is_the_table(lake, broker, topic, filesystem, duck) -> list:
    shown = wait_published(lake)
    messages = records(broker, topic)
    rebuilt = from_json(messages, shown["table_uuid"], Definitions(lake, "t"))
    same(rebuilt, from_duckdb(lake, "t", filesystem, duck))
    appended = {json.loads(m.value())["row_id"] for m in messages if b'"op":"append"' in m.value()}
    assert appended == set(range(lake.next_id)), "no gap"
    return messages


def test_killed_at_every_step(lake, serving, broker, name, filesystem, duck):
    topic = broker.topic(name)
    create(lake, broker, topic, format="json")
    for point in POINTS:
        append(lake)
        delete_first(lake, filesystem)
        victim = serving(HOGLAKE_FAULT_POINT=point)
        try:
            victim.start()
            ended = victim.process.wait(timeout=30)
        except RuntimeError as error:  # before it was ready
            ended = -6 if "ended with -6" in str(error) else 0
        assert ended == -6, f"{point} was not reached"
        victim.process = None
    with_all = serving().start()
    rebuilt_is_the_table(lake, broker, topic, filesystem, duck)
    assert with_all.stop() == 0


def published(server) -> int:
    """Records that a server has produced."""
    text = httpx.get(f"{server.url}/metrics").text
    return sum(int(n) for n in re.findall(r"hoglake_publication_records_total\{.*\} (\d+)", text))


def test_another_server_takes_over_within_the_lease(lake, serving, broker, name, filesystem, duck):
    topic = broker.topic(name)
    servers = [serving().start(), serving().start()]
    create(lake, broker, topic, format="json")
    append(lake)
    wait_published(lake)
    (holder,) = [s for s in servers if published(s)]
    (other,) = [s for s in servers if s is not holder]
    append(lake)
    holder.kill()
    append(lake)
    killed = time.monotonic()
    wait_published(lake, seconds=LEASE_SECONDS + 5)
    took = time.monotonic() - killed
    assert took < LEASE_SECONDS + 2, took
    assert published(other) > 0
    rebuilt_is_the_table(lake, broker, topic, filesystem, duck)
    # one that is told to stop hands over at once
    third = serving().start()
    append(lake)
    wait_published(lake)
    assert other.stop() == 0
    append(lake)
    stopped = time.monotonic()
    wait_published(lake)
    assert time.monotonic() - stopped < LEASE_SECONDS
    assert published(third) > 0
    assert third.stop() == 0


def test_restarts_of_server_broker_and_postgres(lake, serving, broker, postgres, name, filesystem, duck, answering):
    topic = broker.topic(name)
    create(lake, broker, topic, format="json")
    publishing = serving().start()
    stop, failures = threading.Event(), []

    def write():
        while not stop.is_set():
            try:
                append(lake, 20)
                delete_first(lake, filesystem)
            except Exception as error:  # a commit in the middle of a restart may be lost, and says so
                failures.append(error)
                time.sleep(0.2)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        time.sleep(1)
        publishing.kill()
        publishing.start()
        time.sleep(1)
        broker.kill()
        time.sleep(2)
        broker.start()
        time.sleep(1)
    finally:
        stop.set()
        writer.join(60)
    assert not failures, failures
    append(lake)
    postgres.stop("immediate")
    postgres.start()
    publishing.wait_until_ready()
    answering.wait_until_ready()
    again = lake.next_id
    for _ in range(50):
        lake.next_id = again
        try:
            append(lake)
            break
        except HoglakeError as error:  # connections from before the restart: 503, ask again
            assert "unavailable" in str(error), error
            time.sleep(0.2)
    messages = rebuilt_is_the_table(lake, broker, topic, filesystem, duck)
    assert len(messages) >= lake.next_id
    assert publishing.stop() == 0


def test_an_outage_of_the_broker_shows_and_passes(lake, serving, broker, name, filesystem, duck):
    topic = broker.topic(name)
    create(lake, broker, topic, format="json")
    append(lake)
    publishing = serving(HOGLAKE_METRICS_INTERVAL_MS="200").start()
    wait_published(lake)
    broker.kill()
    append(lake)
    shown = wait_until(lake, lambda shown: "last_error" in shown, seconds=20)
    assert shown["state"] == "pending" and shown["lag_snapshots"] == 1, shown
    assert "brokers" in shown["last_error"]
    labels = f'catalog="{lake.name}",publication="p"'
    deadline = time.monotonic() + 20
    while True:
        text = httpx.get(f"{publishing.url}/metrics").text
        visible = [
            f"hoglake_publication_troubled{{{labels}}} 1" in text,
            f"hoglake_publication_lag_snapshots{{{labels}}} 1" in text,
            f'hoglake_publication_errors_total{{{labels},kind="wait"}}' in text,
        ]
        if all(visible) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert all(visible), text
    broker.start()
    shown = wait_published(lake)
    assert shown["state"] == "active" and "last_error" not in shown
    rebuilt_is_the_table(lake, broker, topic, filesystem, duck)
    assert publishing.stop() == 0


def test_expired_history_halts(lake, serving, broker, postgres, name):
    topic = broker.topic(name)
    create(lake, broker, topic, format="json")
    for _ in range(3):
        append(lake)
    # what only a restore or a hand in the database can do: expiry itself never passes a publication
    postgres.sql(f"update hoglake.catalog set earliest_snapshot = 4, earliest_snapshot_time = now() where name = '{lake.name}'")
    publishing = serving().start()
    wait_halted(lake, "history expired", "snapshot 4 or later")
    resume(lake)
    wait_halted(lake, "history expired")
    assert records(broker, topic) == []
    postgres.sql(f"update hoglake.catalog set earliest_snapshot = 0, earliest_snapshot_time = null where name = '{lake.name}'")
    resume(lake)
    wait_published(lake)
    assert publishing.stop() == 0


SECRET = "s3cret-of-the-hog"
LOGIN = {"HOGLAKE_KAFKA_SASL_MECHANISM": "SCRAM-SHA-256", "HOGLAKE_KAFKA_SASL_USERNAME": "hog"}


def test_brokers_that_want_a_login(lake, serving, name, filesystem, duck):
    with Broker(scram=("hog", SECRET)) as broker:
        topic = broker.topic(name)
        create(lake, broker, topic, format="json")
        append(lake)
        login = LOGIN | {"HOGLAKE_KAFKA_SECURITY_PROTOCOL": "sasl_plaintext"}
        stranger = serving(**login, HOGLAKE_KAFKA_SASL_PASSWORD="wrong-s3cret").start()
        wait_until(lake, lambda shown: "authentication" in shown.get("last_error", "").lower(), seconds=20)
        assert stranger.stop() == 0
        known = serving(**login, HOGLAKE_KAFKA_SASL_PASSWORD=SECRET, HOGLAKE_LOG="debug").start()
        rebuilt_is_the_table(lake, broker, topic, filesystem, duck)
        assert "s3cret" not in known.log.read_text() + stranger.log.read_text() + json.dumps(show(lake))
        assert known.stop() == 0


def test_brokers_that_speak_tls(lake, serving, name, filesystem, duck):
    with Broker(scram=("hog", SECRET), tls=True) as broker:
        topic = broker.topic(name)
        create(lake, broker, topic, format="json")
        append(lake)
        login = LOGIN | {"HOGLAKE_KAFKA_SECURITY_PROTOCOL": "sasl_ssl", "HOGLAKE_KAFKA_SASL_PASSWORD": SECRET}
        # nobody that the system trusts signed the broker's certificate
        wary = serving(**login).start()
        wait_until(lake, lambda shown: "certificate" in shown.get("last_error", "").lower(), seconds=20)
        assert wary.stop() == 0
        told = serving(**login, HOGLAKE_KAFKA_SSL_CA_FILE=str(broker.certificate)).start()
        rebuilt_is_the_table(lake, broker, topic, filesystem, duck)
        assert told.stop() == 0
