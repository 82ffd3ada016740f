"""pyhoglake 1.0.0 appends every column type; DuckDB and pyarrow read the same rows back."""

import base64

import pyarrow as pa
import pytest
from pyhoglake import decode_bound

import samples
from lake import TYPES, ok, path
from readers import ROW_ID, multiset, read


@pytest.fixture
def events(catalog):
    return catalog.create_namespace("raw").create_table("events", samples.SCHEMA)


def expected(rows, first_row_id=0):
    return [dict(row, **{ROW_ID: first_row_id + i}) for i, row in enumerate(rows)]


def test_every_type_is_created_as_asked(events):
    assert [c.type for c in events.columns] == list(TYPES)
    assert [(c.field_id, c.ordinal) for c in events.columns] == [(i + 1, i) for i in range(13)]
    (decimal,) = [c for c in events.columns if c.type == "decimal"]
    assert decimal.type_params == {"precision": 18, "scale": 4}


def test_every_type_round_trips_through_two_readers(events, filesystem, duck):
    data = samples.table()
    result = events.append(data, author="e2e", message="all types")
    assert result.snapshot_id == 3
    rows = read(events, filesystem, duck)
    assert multiset(rows) == multiset(expected(data.to_pylist()))
    info = events.info()
    assert (info.record_count, info.file_count) == (4, 1)
    (file,) = events.files()
    assert (file.row_id_start, file.stats_state, file.record_count) == (0, "provided", 4)
    assert info.file_size_bytes == file.file_size_bytes == filesystem.get_file_info(file.path[5:]).size


def test_several_appends_tile_the_row_ids(events, filesystem, duck):
    data = samples.table()
    for _ in range(3):
        events.append(data)
    events.append(data.slice(0, 0))
    events.append(data.slice(1, 2), row_group_size=1)
    rows = read(events, filesystem, duck)
    assert [row[ROW_ID] for row in rows] == list(range(14))
    wanted = data.to_pylist() * 3 + data.slice(1, 2).to_pylist()
    assert multiset(rows) == multiset(expected(wanted))
    starts = [f.row_id_start for f in sorted(events.files(), key=lambda f: f.data_file_id)]
    assert starts == [0, 4, 8, 12, 12]


def test_deferred_statistics_leave_the_file_pending_and_readable(events, filesystem, duck):
    data = samples.table()
    events.append(data, deferred_stats=True)
    (file,) = events.files()
    assert file.stats_state == "pending"
    assert multiset(read(events, filesystem, duck)) == multiset(expected(data.to_pylist()))


def test_statistics_come_back_with_the_scan(events, api, catalog):
    events.append(samples.table())
    plan = ok(api.get(path("catalogs", catalog.name, "namespaces", "raw", "tables", "events", "scan"), params={"stats": "true"}))
    stats = {s["field_id"]: s for s in plan[0]["column_stats"]}
    assert set(stats) == set(range(1, 14))
    assert {(s["value_count"], s["null_count"]) for s in stats.values()} == {(4, 1)}

    def bounds(column: str):
        c = next(c for c in events.columns if c.name == column)
        s = stats[c.field_id]
        return tuple(
            decode_bound(c.type, base64.b64decode(s[side]), c.type_params) for side in ("lower_bound", "upper_bound")
        )

    assert bounds("c_long") == (-(2**63), 2**63 - 1)
    assert bounds("c_int") == (-(2**31), 2**31 - 1)
    assert bounds("c_date") == (samples.ROWS[1][6], samples.ROWS[0][6])
    assert bounds("c_boolean") == (False, True)


def test_a_bigger_table_of_many_files(catalog, filesystem, duck):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.string())])
    table = catalog.create_namespace("raw").create_table("many", schema)
    wanted = []
    for part in range(12):
        ids = list(range(part * 1000, part * 1000 + 1000))
        table.append(pa.table({"id": ids, "s": [f"v{i % 97}" for i in ids]}, schema=schema))
        wanted += ids
    rows = read(table, filesystem, duck)
    assert [row["id"] for row in rows] == wanted == [row[ROW_ID] for row in rows]
    assert table.info().record_count == 12_000
