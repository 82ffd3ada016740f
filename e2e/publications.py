"""Publications as those who read the topic see them: a standard consumer that rebuilds the table."""

from __future__ import annotations

import base64
import json
import struct
import time
from datetime import date, datetime, time as clock
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

import puffin
from broker import Broker
from lake import Lake, ok
from readers import DUCKDB_TYPES, comparable, key

ROW_ID_FIELD = 2147483646


def create(lake: Lake, broker: Broker, topic: str, name: str = "p", table: str = "t", **more) -> dict:
    body = {"from_snapshot": more.pop("from_snapshot", 0)} if more.get("from_snapshot", 0) is not None else {}
    more.pop("from_snapshot", None)
    sink = {"type": "kafka", "bootstrap_servers": broker.address, "topic": topic} | more
    body |= {"name": name, "namespace": "ns", "table": table, "sink": sink}
    return ok(lake.post("publications", json=body), 201)


def show(lake: Lake, name: str = "p") -> dict:
    return ok(lake.get("publications", name))


def wait_until(lake: Lake, holds, name: str = "p", seconds: float = 60) -> dict:
    deadline = time.monotonic() + seconds
    while True:
        shown = show(lake, name)
        if holds(shown):
            return shown
        assert time.monotonic() < deadline, f"not within {seconds} s: {shown}"
        time.sleep(0.05)


def wait_published(lake: Lake, name: str = "p", seconds: float = 60) -> dict:
    """Waits until everything up to the present head is acknowledged."""
    head = lake.head()

    def done(shown: dict) -> bool:
        assert shown["state"] != "halted", shown
        return shown["committed_snapshot"] >= head

    return wait_until(lake, done, name, seconds)


def wait_halted(lake: Lake, *words: str, name: str = "p", seconds: float = 60) -> dict:
    shown = wait_until(lake, lambda shown: shown["state"] == "halted", name, seconds)
    for word in words:
        assert word in shown["last_error"], shown
    return shown


def resume(lake: Lake, name: str = "p") -> dict:
    return ok(lake.post("publications", name, "resume"), 200)


def records(broker: Broker, topic: str) -> list:
    """Everything in the topic, partition by partition in order."""
    consumer = Consumer(broker.client(**{"group.id": "e2e", "enable.auto.commit": False}))
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30) for p in partitions}
        consumer.assign([TopicPartition(topic, p, low) for p, (low, _) in ends.items()])
        waiting = {p for p, (low, high) in ends.items() if low < high}
        found = []
        deadline = time.monotonic() + 60
        while waiting and time.monotonic() < deadline:
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                found.append(message)
            at = consumer.position([TopicPartition(topic, p) for p in waiting])
            waiting -= {t.partition for t in at if t.offset >= ends[t.partition][1]}
        assert not waiting, f"partitions {waiting} were not read to their end"
        return found
    finally:
        consumer.close()


def headers(message) -> dict[str, str]:
    return {name: value.decode() for name, value in message.headers() or []}


class Definitions:
    """The table's columns at each snapshot, under whatever name it had then."""

    def __init__(self, lake: Lake, *names: str):
        self.lake, self.names, self.known = lake, names, {}

    def at(self, snapshot: int) -> dict[str, dict]:
        if snapshot not in self.known:
            for name in self.names:
                response = self.lake.get_table(name, snapshot=snapshot)
                if response.status_code == 200:
                    self.known[snapshot] = {c["name"]: c for c in response.json()["columns"]}
        return self.known[snapshot]


def json_value(value, type_: str):
    """The value that a JSON form stands for."""
    if value is None:
        return None
    if type_ == "float":
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    parse = {
        "double": float,
        "decimal": Decimal,
        "date": date.fromisoformat,
        "time": clock.fromisoformat,
        "timestamp": datetime.fromisoformat,
        "timestamptz": datetime.fromisoformat,
        "uuid": lambda text: UUID(text).bytes,
        "binary": base64.b64decode,
    }.get(type_)
    return parse(value) if parse else value


def from_json(messages, table_uuid: str, definitions: Definitions) -> dict[int, dict[int, object]]:
    """Rows by id, values by field id, as the topic leaves them."""
    rows: dict[int, dict[int, object]] = {}
    for message in messages:
        uuid, row_id = message.key().decode().split(":")
        assert uuid == table_uuid
        row_id = int(row_id)
        if message.value() is None:
            assert row_id not in rows, "a tombstone follows its delete"
            continue
        record = json.loads(message.value())
        assert record["row_id"] == row_id
        if record["op"] == "delete":
            assert set(record) == {"op", "row_id"} and headers(message)["snapshot_id"].isdigit()
            rows.pop(row_id, None)
            continue
        assert list(record)[:3] == ["op", "snapshot_id", "row_id"] and record["op"] == "append"
        columns = definitions.at(record["snapshot_id"])
        assert list(record)[3:] == list(columns), "names and order of that snapshot"
        rows[row_id] = {c["field_id"]: json_value(record[name], c["type"]) for name, c in columns.items()}
    return rows


def from_arrow(messages, table_uuid: str, definitions: Definitions) -> dict[int, dict[int, object]]:
    """The same from records of arrow_ipc."""
    rows: dict[int, dict[int, object]] = {}
    assert len({message.partition() for message in messages}) <= 1
    for message in messages:
        said = headers(message)
        (batch,) = pa.ipc.open_stream(message.value())
        ids = batch.column("_hog_row_id").to_pylist()
        assert message.key().decode() == f"{table_uuid}:{ids[0]}" and ids == sorted(ids)
        assert len(message.value()) <= 1_000_000
        if said["op"] == "delete":
            assert batch.num_columns == 1
            for row_id in ids:
                rows.pop(row_id, None)
            continue
        columns = definitions.at(int(said["snapshot_id"]))
        assert batch.schema.names == [*columns, "_hog_row_id"]
        fields = [int(f.metadata[b"PARQUET:field_id"]) for f in batch.schema]
        assert fields == [*(c["field_id"] for c in columns.values()), ROW_ID_FIELD]
        values = [column.to_pylist() for column in batch.columns]
        for at, row_id in enumerate(ids):
            rows[row_id] = {field: values[i][at] for i, field in enumerate(fields[:-1])}
    return rows


REBUILD = {"json": from_json, "arrow_ipc": from_arrow}


def from_duckdb(lake: Lake, table: str, filesystem, duck) -> dict[int, dict[int, object]]:
    """The live rows as DuckDB reads the table: rows by id, values by field id."""

    def duckdb_type(column) -> str:
        if column["type"] == "decimal":
            return "DECIMAL({precision},{scale})".format_map(column["type_params"])
        return DUCKDB_TYPES[column["type"]]

    def mapped(field_id: int, name: str, type_: str) -> str:
        return f"{field_id}: {{name: '{name}', type: '{type_}', default_value: NULL}}"

    columns = ok(lake.get_table(table))["columns"]
    rows: dict[int, dict[int, object]] = {}
    for entry in lake.scan(table):
        file, vector = entry["data_file"], entry.get("delete_file")
        by_id = [mapped(c["field_id"], c["name"], duckdb_type(c)) for c in columns]
        row_id = f"{file['row_id_start']} + file_row_number"
        if file["explicit_row_ids"]:
            by_id.append(mapped(ROW_ID_FIELD, "_hog_row_id", "BIGINT"))
            row_id = "_hog_row_id"
        names = ", ".join(f'"{c["name"]}"' for c in columns)
        read = duck.execute(
            f"SELECT {names}, {row_id}, file_row_number "
            f"FROM read_parquet('{file['path']}', schema = MAP {{{', '.join(by_id)}}}, file_row_number = true)"
        ).to_arrow_table()
        gone = set()
        if vector:
            with filesystem.open_input_stream(key(vector["path"])) as stream:
                gone = puffin.positions(stream.read())
        values = [column.to_pylist() for column in read.columns]
        for at in range(read.num_rows):
            if values[-1][at] not in gone:
                rows[values[-2][at]] = {c["field_id"]: values[i][at] for i, c in enumerate(columns)}
    return rows


def same(rebuilt: dict, judged: dict) -> None:
    """Asserts that two sets of rows are the same. Columns that one side never had are null."""
    assert sorted(rebuilt) == sorted(judged)
    live = {field for row in judged.values() for field in row}
    for row_id, row in judged.items():
        for field in live:
            got, wanted = rebuilt[row_id].get(field), row.get(field)
            assert comparable(got) == comparable(wanted), (row_id, field, got, wanted)


def put(filesystem, path: str, raw: bytes) -> None:
    with filesystem.open_output_stream(key(path)) as stream:
        stream.write(raw)
