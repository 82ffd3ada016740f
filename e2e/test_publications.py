"""Publications against a real broker: the topic, read by a standard consumer, is the table as DuckDB reads it."""

import io
import os
import time

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import puffin
import samples
from broker import Broker
from lake import Lake, column, ok, refused
from publications import (
    REBUILD,
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
)

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])


@pytest.fixture(scope="session")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture
def lake(api, catalog):
    return Lake(api, catalog.name)


@pytest.fixture
def topic(broker, name):
    return broker.topic(name)


@pytest.fixture
def table(catalog):
    return catalog.create_namespace("ns").create_table("t", SCHEMA)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "note": [f"n{i}" for i in ids]}, schema=SCHEMA)


@pytest.fixture
def delete(lake, filesystem):
    """Deletes positions of a file, beside those that are deleted already."""

    def delete(file, positions, table="t") -> int:
        raw = puffin.file(positions, file.path)
        entry = lake.vector(file.data_file_id, len(set(positions)), file_size_bytes=len(raw))
        put(filesystem, entry["path"], raw)
        return lake.delete_rows(entry, table=table)

    return delete


def compact(lake) -> dict:
    return ok(lake.api.post(lake.url("maintenance", "compact"), params={"batch": 10}))


@pytest.mark.parametrize("format_", ["json", "arrow_ipc"])
def test_the_topic_rebuilds_the_table(catalog, lake, topic, broker, filesystem, duck, delete, format_):
    """Appends, deletes, alters, renames and compactions of a table with every type."""
    table = catalog.create_namespace("ns").create_table("t", samples.SCHEMA)
    create(lake, broker, topic, format=format_)
    for _ in range(3):
        table.append(samples.table())
    first, second, _ = sorted(table.files(), key=lambda f: f.row_id_start)
    delete(first, [1])
    delete(first, [1, 3])
    ok(lake.alter({"op": "add_column", "column": column("added", "string")}))
    ok(lake.alter({"op": "promote_column", "name": "c_int", "to": "long"}, {"op": "drop_column", "name": "c_binary"}))
    ok(lake.alter({"op": "rename_column", "from": "c_string", "to": "text"}))
    changed = samples.table().drop_columns(["c_binary"]).rename_columns(
        [name if name != "c_string" else "text" for name in samples.SCHEMA.names if name != "c_binary"]
    )
    changed = changed.set_column(1, "c_int", changed.column("c_int").cast(pa.int64()))
    changed = changed.append_column("added", pa.array(["a", None, "", "x"]))
    table = catalog.namespace("ns").table("t")
    table.append(changed)
    assert compact(lake)["groups_compacted"] == 1
    (merged,) = table.files()
    assert lake.files()[0]["explicit_row_ids"]
    # positions of the merged file: rows 1 and 3 are gone, so that 0, 2, 4, 5, ... are left
    delete(merged, [0, 2, 4])
    ok(lake.alter({"op": "rename_table", "new_name": "renamed"}))
    table = catalog.namespace("ns").table("renamed")
    table.append(changed.slice(0, 2))
    last = max(table.files(), key=lambda f: f.row_id_start)
    delete(last, [0], table="renamed")

    shown = wait_published(lake)
    assert (shown["state"], shown["lag_snapshots"]) == ("active", 0) and "last_error" not in shown
    messages = records(broker, topic)
    rebuilt = REBUILD[format_](messages, shown["table_uuid"], Definitions(lake, "t", "renamed"))
    judged = from_duckdb(lake, "renamed", filesystem, duck)
    assert sorted(judged) == [2, 5, *range(7, 16), 17]
    same(rebuilt, judged)
    if format_ == "json":
        assert len(messages) == 18 + 6, "compaction never shows, and nothing was sent twice"


def test_it_begins_where_it_is_told(table, lake, topic, broker):
    table.append(rows(1))
    head = lake.head()
    create(lake, broker, topic, name="now", from_snapshot=None, format="json")
    create(lake, broker, topic, name="before", from_snapshot=head - 1, format="json")
    assert show(lake, "now")["committed_snapshot"] == head
    table.append(rows(2))
    for name in ("now", "before"):
        wait_published(lake, name)
    assert len(records(broker, topic)) == 1 + 2


def test_its_offset_is_its_own(table, lake, topic, broker):
    """It moves over snapshots that do not concern the table, and nobody else moves it."""
    made = create(lake, broker, topic, format="json")
    twice = {"name": "p", "namespace": "ns", "table": "t", "sink": made["sink"]}
    refused(lake.post("publications", json=twice), 409, "already_exists")
    assert [p["name"] for p in ok(lake.get("publications"))] == ["p"]
    for _ in range(3):
        lake.namespace(f"other{_}")
    shown = wait_published(lake)
    (consumer,) = ok(lake.get("consumers"))["consumers"]
    assert consumer["consumer_id"] == "publication:p"
    assert consumer["offsets"][0]["committed_snapshot"] == lake.head() == shown["committed_snapshot"]
    offset = lake.url("consumers", "publication:p", "offsets", shown["table_uuid"])
    refused(lake.api.put(offset, json={"snapshot_id": 1}), 422, "validation", "reserved")
    ok(lake.delete("publications", "p"), 204)
    assert ok(lake.get("consumers"))["consumers"] == []
    refused(lake.get("publications", "p"), 404, "not_found")


def test_expiry_does_not_pass_it(table, lake, broker):
    create(lake, broker, "nobody-made-this-topic", format="json")
    table.append(rows(1))
    options = {"snapshot_retention_seconds": 1, "consumer_floor": False}
    ok(lake.api.patch(lake.url("options"), json=options))
    wait_halted(lake, "does not exist", "Create it")
    time.sleep(1.1)
    for _ in range(2):
        expired = ok(lake.api.post(lake.url("maintenance", "expire")))
    assert expired["floored_by_consumer"] == "publication:p"
    assert expired["new_earliest_snapshot_id"] <= show(lake)["committed_snapshot"]


def test_a_compacted_topic_converges_to_the_live_rows(table, lake, broker, name, filesystem, duck, delete):
    settings = {"segment_bytes": 4096, "min_cleanable_dirty_ratio": 0.001, "delete_retention_ms": 0}
    topic = broker.topic(name, 1, cleanup_policy="compact", segment_ms=100, **settings)
    create(lake, broker, topic, format="json", tombstones=True)
    for n in range(6):
        table.append(rows(*range(n * 20, n * 20 + 20)))
    for file in sorted(table.files(), key=lambda f: f.row_id_start):
        delete(file, range(0, 20, 2))
    deadline, last = time.monotonic() + 60, 1000
    while True:
        # the newest segment is never compacted: something has to come after it
        table.append(rows(last))
        last += 1
        shown = wait_published(lake)
        messages = records(broker, topic)
        if len({m.key() for m in messages}) == len(messages) or time.monotonic() > deadline:
            break
        time.sleep(0.3)
    assert len({m.key() for m in messages}) == len(messages), "one record a key is left"
    judged = from_duckdb(lake, "t", filesystem, duck)
    assert {int(m.key().decode().split(":")[1]) for m in messages if m.value()} == set(judged)
    assert len(messages) < 6 * 20 + 60, "something was compacted"
    same(from_json(messages, shown["table_uuid"], Definitions(lake, "t")), judged)


def test_a_dropped_table_halts(catalog, table, lake, topic, broker):
    created = create(lake, broker, topic, format="json")
    table.append(rows(1, 2))
    dropped = ok(lake.api.delete(lake.table_url()), 200)["snapshot_id"]
    shown = wait_halted(lake, f"dropped at snapshot {dropped}", "drop the publication")
    assert shown["committed_snapshot"] == dropped - 1
    assert len(records(broker, topic)) == 2, "what came before is published"
    again = catalog.namespace("ns").create_table("t", SCHEMA)
    assert resume(lake)["state"] == "pending"
    shown = wait_halted(lake, "created again as", str(again.info().table_uuid))
    assert shown["table_uuid"] == created["table_uuid"]


def test_an_unreadable_file_halts_until_it_is_put_back(table, lake, topic, broker, filesystem, duck):
    table.append(rows(1))
    create(lake, broker, topic, format="json")
    raw = io.BytesIO()
    ids = [pa.field(f.name, f.type, f.nullable, {"PARQUET:field_id": str(i + 1)}) for i, f in enumerate(SCHEMA)]
    pq.write_table(rows(2, 3).cast(pa.schema(ids)), raw)
    missing = lake.file(2, file_size_bytes=raw.tell())
    snapshot = lake.append(missing)
    table.append(rows(4))
    shown = wait_halted(lake, missing["path"], "does not exist", f"snapshot {snapshot}", "resume")
    assert shown["committed_snapshot"] == snapshot - 1
    put(filesystem, missing["path"], b"PAR1 but not a file PAR1")
    resume(lake)
    wait_halted(lake, missing["path"], "bytes")
    put(filesystem, missing["path"], raw.getvalue())
    resume(lake)
    shown = wait_published(lake)
    rebuilt = from_json(records(broker, topic), shown["table_uuid"], Definitions(lake, "t"))
    same(rebuilt, from_duckdb(lake, "t", filesystem, duck))


def test_a_schema_that_cannot_be_encoded_halts(catalog, table, lake, topic, broker):
    create(lake, broker, topic, format="json")
    table.append(rows(1))
    wait_published(lake)
    ok(lake.alter({"op": "add_column", "column": column("op", "string")}))
    table = catalog.namespace("ns").table("t")
    table.append(rows(2).append_column("op", pa.array(["x"])))
    wait_halted(lake, "`op`", "arrow_ipc")
    refused(
        lake.post("publications", json={"name": "q", "namespace": "ns", "table": "t", "sink": show(lake)["sink"]}),
        422,
        "validation",
        "`op`",
    )


@pytest.mark.parametrize("format_", ["json", "arrow_ipc"])
def test_a_record_that_the_topic_refuses_halts(table, lake, broker, name, format_):
    topic = broker.topic(name, 1, max_message_bytes=2000)
    create(lake, broker, topic, format=format_)
    table.append(pa.table({"id": [1], "note": [os.urandom(20_000).hex()]}, schema=SCHEMA))
    wait_halted(lake, "larger than allowed", "max.message.bytes")
    config = {"max.message.bytes": "1000000"}
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in config.items()]
    admin = broker.admin()
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    (done,) = admin.incremental_alter_configs([resource]).values()
    done.result(timeout=30)
    resume(lake)
    wait_published(lake)
    assert len(records(broker, topic)) == 1


def test_a_vector_that_brings_rows_back_halts(table, lake, topic, broker, delete):
    table.append(rows(1, 2, 3))
    create(lake, broker, topic, format="json")
    (file,) = table.files()
    delete(file, [0])
    delete(file, [1, 2])
    wait_halted(lake, "brings back rows")


def test_metrics_tell_of_it(table, lake, topic, broker, server):
    create(lake, broker, topic, format="json")
    table.append(rows(1, 2))
    wait_published(lake)
    labels = f'catalog="{lake.name}",publication="p"'
    deadline = time.monotonic() + 40
    while True:
        text = httpx.get(f"{server.url}/metrics").text
        if f'hoglake_publication_state{{{labels},state="active"}} 1' in text or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert f'hoglake_publication_records_total{{{labels},op="append"}} 2' in text
    assert f'hoglake_publication_state{{{labels},state="active"}} 1' in text
    assert "hoglake_publication_delay_seconds_count" in text
    assert f"hoglake_publication_lag_snapshots{{{labels}}}" in text
