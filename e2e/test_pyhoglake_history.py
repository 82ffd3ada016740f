"""Time travel, snapshots, the changefeed, offsets, views, options and incarnations through pyhoglake."""

from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pytest
from pyhoglake import (
    CommitConflictError,
    HoglakeError,
    IncarnationChangedError,
    NotFoundError,
    OffsetRegressionError,
    ValidationError,
    ops,
)
from pyhoglake import UNGUARDED

from readers import read

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("note", pa.string())])


def batch(*ids) -> pa.Table:
    return pa.table({"id": list(ids), "note": [f"n{i}" for i in ids]}, schema=SCHEMA)


@pytest.fixture
def namespace(catalog):
    return catalog.create_namespace("raw")


@pytest.fixture
def table(namespace):
    return namespace.create_table("events", SCHEMA)


def ids(rows):
    return [row["id"] for row in rows]


def test_time_travel_by_snapshot_and_moment(table, catalog, filesystem, duck):
    made = [table.append(batch(n)).snapshot_id for n in range(1, 6)]
    times = {s.snapshot_id: s.snapshot_time for s in catalog.snapshots()}
    for n, snapshot in enumerate(made, start=1):
        wanted = list(range(1, n + 1))
        assert ids(read(table, filesystem, duck, snapshot=snapshot)) == wanted
        assert table.info(snapshot=snapshot).record_count == n
        assert table.info(at_timestamp=times[snapshot]).record_count == n
        zone = timezone(timedelta(hours=2))
        assert table.info(at_timestamp=times[snapshot].astimezone(zone)).record_count == n
        assert len(table.files(at_timestamp=times[snapshot])) == n
        assert len(table.scan_plan(at_timestamp=times[snapshot].isoformat().replace("+00:00", "Z"))) == n
    assert table.info(at_timestamp=datetime.now(timezone.utc) + timedelta(days=1)).record_count == 5
    with pytest.raises(NotFoundError):
        table.info(snapshot=0)
    with pytest.raises(ValidationError):
        table.info(snapshot=made[-1] + 1)
    with pytest.raises(HoglakeError) as gone:
        table.info(at_timestamp="1999-01-01T00:00:00Z")
    assert (gone.value.status_code, gone.value.message) == (410, "expired")


def test_history_is_listed_in_pages_and_in_both_directions(table, catalog):
    for n in range(5):
        table.append(batch(n), author="e2e", message=f"append {n}")
    up = list(catalog.snapshots())
    assert [s.snapshot_id for s in up] == list(range(1, 8))
    assert [s.snapshot_id for s in catalog.snapshots(limit=2)] == [s.snapshot_id for s in up]
    down = list(catalog.snapshots(before=8, limit=3))
    assert [s.snapshot_id for s in down] == list(range(7, -1, -1))
    assert [c.kind for s in up for c in s.changes] == ["namespace_created", "table_created"] + 5 * ["table_inserted_into"]
    assert (up[-1].author, up[-1].message) == ("e2e", "append 4")
    assert (up[0].author, up[0].message) == (None, None)
    assert sorted(s.snapshot_time for s in up) == [s.snapshot_time for s in up]
    assert [s.schema_version for s in up] == [1, 2, 2, 2, 2, 2, 2]


def test_the_changefeed_tiles(table, catalog, filesystem):
    made = [table.append(batch(n)).snapshot_id for n in range(6)]
    start = made[0] - 1
    whole = table.changes(start)
    assert (whole.from_snapshot, whole.to_snapshot, whole.table_uuid) == (start, made[-1], table.table_uuid)
    assert [f.begin_snapshot for f in whole.files] == made
    parts = [table.changes(a, b) for a, b in [(start, made[1]), (made[1], made[4]), (made[4], made[5])]]
    assert [f for p in parts for f in p.files] == list(whole.files)
    empty = table.changes(made[-1])
    assert (empty.files, empty.delete_files) == ((), ())
    with pytest.raises(ValidationError):
        table.changes(made[-1], made[0])


def test_offsets(table, catalog):
    first, second = table.append(batch(1)).snapshot_id, table.append(batch(2)).snapshot_id
    consumer = "group/ü '1' \"x\""
    assert catalog.offset(consumer, table.table_uuid) is None
    assert catalog.offsets(consumer) == []
    stored = catalog.commit_offset(consumer, table.table_uuid, first)
    assert (stored.consumer_id, stored.table_uuid, stored.committed_snapshot) == (consumer, table.table_uuid, first)
    assert catalog.commit_offset(consumer, table.table_uuid, first).committed_snapshot == first
    assert catalog.commit_offset(consumer, table.table_uuid, second).committed_snapshot == second
    with pytest.raises(OffsetRegressionError):
        catalog.commit_offset(consumer, table.table_uuid, first)
    assert catalog.offset(consumer, table.table_uuid).committed_snapshot == second
    assert [o.committed_snapshot for o in catalog.offsets(consumer)] == [second]
    with pytest.raises(ValidationError):
        catalog.commit_offset(consumer, "00000000-0000-4000-8000-000000000000", first)


def test_views(namespace, catalog):
    sql = "SELECT id,\n\t'naïve 🦔' AS note -- as written\nFROM events;  "
    view = namespace.create_view("v", sql, dialect="duckdb")
    assert namespace.view("v").info == view.info
    assert (view.sql, view.dialect, view.info.namespace) == (sql, "duckdb", "raw")
    other = namespace.create_view("a", "SELECT 1")
    assert other.dialect == "trino"
    assert [v.name for v in namespace.list_views()] == ["a", "v"]
    head = catalog.refresh().head_snapshot_id
    assert view.drop().snapshot_id == head + 1
    assert [v.name for v in namespace.list_views()] == ["a"]
    with pytest.raises(NotFoundError):
        namespace.view("v")
    assert namespace.create_view("v", sql).view_uuid != view.view_uuid


def test_options(catalog):
    options = catalog.options()
    assert (options.snapshot_retention_seconds, options.consumer_floor, options.earliest_snapshot_id) == (None, True, 0)
    assert catalog.set_retention(3600).snapshot_retention_seconds == 3600
    assert catalog.set_retention(3600, consumer_floor=False).consumer_floor is False
    assert catalog.set_retention(None).snapshot_retention_seconds is None
    assert catalog.options().consumer_floor is False
    with pytest.raises(ValidationError):
        catalog.set_retention(0)
    assert catalog.refresh().head_snapshot_id == 0, "options make no snapshot"


def test_a_dropped_table_stays_in_its_past(namespace, table, catalog, filesystem, duck):
    made = table.append(batch(1, 2)).snapshot_id
    dropped = table.drop()
    assert dropped.snapshot_id == made + 1
    with pytest.raises(NotFoundError):
        table.info()
    with pytest.raises(NotFoundError):
        table.drop()
    assert namespace.list_tables() == []
    assert ids(read(table, filesystem, duck, snapshot=made)) == [1, 2]


def test_a_recreated_table_is_never_written_by_mistake(namespace, table, catalog, filesystem, duck):
    table.append(batch(1))
    table.drop()
    again = namespace.create_table("events", SCHEMA)
    assert again.table_uuid != table.table_uuid
    with pytest.raises(IncarnationChangedError):
        table.append(batch(2))
    # Past the client's own look: the server's guard, in the commit itself.
    table._check_incarnation = lambda expected: again.info()
    with pytest.raises(IncarnationChangedError) as refusal:
        table.append(batch(2))
    assert "the table was recreated" in refusal.value.detail
    assert table.table_uuid in refusal.value.detail and again.table_uuid in refusal.value.detail
    assert again.info().record_count == 0
    again.append(batch(3), expected_table_uuid=UNGUARDED)
    assert ids(read(again, filesystem, duck)) == [3]
    assert [f.row_id_start for f in again.files()] == [0], "row ids begin anew"


def test_a_writer_that_missed_a_schema_change_is_told(namespace, table, catalog):
    read_snapshot = table.append(batch(1)).snapshot_id
    namespace.table("events").alter([ops.add_column("extra", pa.int64())])
    catalog._client._http.headers["X-Request-Id"] = "stale-writer"
    try:
        with pytest.raises(CommitConflictError) as refusal:
            table.append(pa.table({"id": [2], "note": ["x"], "extra": [1]}), read_snapshot=read_snapshot)
    finally:
        del catalog._client._http.headers["X-Request-Id"]
    assert type(refusal.value) is CommitConflictError
    for word in ("raw.events", "altered", str(read_snapshot + 1)):
        assert word in refusal.value.detail
    table.append(
        pa.table({"id": [2], "note": ["x"], "extra": [1]}), read_snapshot=catalog.refresh().head_snapshot_id
    )
    assert table.info().record_count == 2
