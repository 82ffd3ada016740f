"""Deletion vectors: written by an independent Puffin writer, committed over HTTP, applied by two engines."""

import pyarrow as pa
import pytest

import puffin
from lake import Lake, ok, refused
from readers import ROW_ID, key, read, with_arrow

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])


@pytest.fixture
def table(catalog):
    made = catalog.create_namespace("ns").create_table("t", SCHEMA)
    made.append(pa.table({"id": list(range(100)), "note": [f"n{i}" for i in range(100)]}, schema=SCHEMA))
    made.append(pa.table({"id": list(range(100, 150)), "note": [None] * 50}, schema=SCHEMA))
    return made


@pytest.fixture
def lake(api, catalog):
    """The same catalog, over plain HTTP."""
    return Lake(api, catalog.name)


@pytest.fixture
def write_vector(filesystem, lake):
    def write(file, positions) -> dict:
        raw = puffin.file(positions, file.path)
        entry = lake.vector(file.data_file_id, len(set(positions)), file_size_bytes=len(raw))
        with filesystem.open_output_stream(key(entry["path"])) as stream:
            stream.write(raw)
        return entry

    return write


def ids(rows):
    return [row["id"] for row in rows]


def test_deleted_rows_are_gone_for_every_reader(table, lake, write_vector, filesystem, duck):
    first, second = sorted(table.files(), key=lambda f: f.row_id_start)
    before = lake.head()
    one = lake.delete_rows(write_vector(first, [0, 7, 99]))
    assert ids(read(table, filesystem, duck)) == [i for i in range(150) if i not in (0, 7, 99)]

    two = lake.delete_rows(write_vector(first, [0, 7, 8, 9, 99]), write_vector(second, range(50)))
    rows = read(table, filesystem, duck)
    assert ids(rows) == [i for i in range(100) if i not in (0, 7, 8, 9, 99)] == [row[ROW_ID] for row in rows]

    assert ids(read(table, filesystem, duck, snapshot=before)) == list(range(150))
    assert len(read(table, filesystem, duck, snapshot=one)) == 147
    changes = table.changes(before)
    assert changes.files == ()
    assert [(d.begin_snapshot, d.data_file_id, d.delete_count) for d in changes.delete_files] == [
        (one, first.data_file_id, 3),
        (two, first.data_file_id, 5),
        (two, second.data_file_id, 50),
    ]
    assert table.info().record_count == 150, "totals are gross"
    kinds = [c["kind"] for s in ok(lake.get("snapshots", after=before))["snapshots"] for c in s["changes"]]
    assert kinds == ["table_deleted_from"] * 2


def test_appends_and_deletes_in_one_commit(table, lake, write_vector, filesystem, duck):
    first, _ = sorted(table.files(), key=lambda f: f.row_id_start)
    data = pa.table({"id": [7], "note": ["updated"]}, schema=SCHEMA)
    table.append(data)
    (third,) = [f for f in table.files() if f.row_id_start == 150]
    head = lake.head()
    body = {
        "read_snapshot": head,
        "appends": [lake.appends(lake.file(1, path=third.path, file_size_bytes=third.file_size_bytes, column_stats=...))],
        "deletes": [lake.deletes(write_vector(first, [7]), write_vector(third, [0]))],
        "author": "e2e",
    }
    assert ok(lake.commit(**body))["snapshot_id"] == head + 1
    (snapshot,) = ok(lake.get("snapshots", after=head))["snapshots"]
    assert sorted(c["kind"] for c in snapshot["changes"]) == ["table_deleted_from", "table_inserted_into"]
    # DuckDB cannot tell two registrations of one path apart, so pyarrow alone judges this one.
    live = {row["id"]: row for row in with_arrow(table, filesystem)}
    assert live[7]["note"] == "updated" and live[7][ROW_ID] == 151


def test_two_deleters_of_one_file(table, lake, write_vector, filesystem, duck):
    first, _ = sorted(table.files(), key=lambda f: f.row_id_start)
    read_snapshot = lake.head()
    winner = lake.delete_rows(write_vector(first, [1, 2, 3]), read_snapshot=read_snapshot)
    loser = {"read_snapshot": read_snapshot, "deletes": [lake.deletes(write_vector(first, [4]))]}
    with lake.unchanged():
        refused(lake.commit(**loser), 409, "commit_conflict", "ns.t", str(winner))
    merged = write_vector(first, [1, 2, 3, 4])
    lake.delete_rows(merged)
    assert ids(read(table, filesystem, duck))[:3] == [0, 5, 6]


def test_positions_beyond_32_bits(table, lake):
    """The vector format is 64-bit; the server takes counts at their word and opens nothing."""
    positions = [0, 1, 3, 4_000_000_000, 2**32 + 7, 5 * 2**32]
    raw = puffin.file(positions, "s3://lake/x")
    assert puffin.positions(raw) == set(positions)
    lake.append(lake.file(5 * 2**32 + 1))
    (file,) = [f for f in lake.files() if f["record_count"] > 2**32]
    head = lake.delete_rows(lake.vector(file["data_file_id"], len(positions), file_size_bytes=len(raw)))
    (entry,) = [e for e in lake.scan() if e["data_file"]["data_file_id"] == file["data_file_id"]]
    assert entry["delete_file"]["delete_count"] == 6 and entry["delete_file"]["begin_snapshot"] == head
