"""Partitioned appends with every transform on every type that it takes, and what the server refuses."""

import pyarrow as pa
import pytest
from pyhoglake import ValidationError, ops

import samples
from lake import TYPES, ok, path
from readers import ROW_ID, multiset, read

BUCKETABLE = [t for t in TYPES if t not in ("boolean", "float", "double")]
DATED = ["date", "timestamp", "timestamptz"]
TIMED = ["timestamp", "timestamptz"]
LEGAL = (
    [("identity", None, t) for t in TYPES]
    + [("bucket", 8, t) for t in BUCKETABLE]
    + [(transform, None, t) for transform in ("year", "month", "day") for t in DATED]
    + [("hour", None, t) for t in TIMED]
)
ILLEGAL = (
    [("bucket", 8, t) for t in TYPES if t not in BUCKETABLE]
    + [(transform, None, t) for transform in ("year", "month", "day") for t in TYPES if t not in DATED]
    + [("hour", None, t) for t in TYPES if t not in TIMED]
)
# The catalog keeps partition values as text, which cannot hold U+0000 (400); columns can.
ROWS = [tuple(v.replace("\0", "") if isinstance(v, str) else v for v in row) for row in samples.ROWS]


def field_of(table, type_: str):
    return next(c.field_id for c in table.columns if c.type == type_)


def names(cases):
    return [f"{transform}-{type_}" for transform, _, type_ in cases]


@pytest.mark.parametrize(("transform", "param", "type_"), LEGAL, ids=names(LEGAL))
def test_partitioned_append(catalog, filesystem, duck, transform, param, type_):
    table = catalog.create_namespace("raw").create_table("events", samples.SCHEMA)
    spec = ops.partition_field(field_of(table, type_), transform, param)
    altered = table.alter([ops.set_partition_spec([spec])])
    assert altered.partition_spec.spec_id == 1 and altered.partition_spec.fields == (spec,)
    data = samples.table(ROWS * 2)
    result = table.append(data)

    rows = read(table, filesystem, duck)
    assert multiset(rows, row_ids=False) == multiset(data.to_pylist(), row_ids=False)
    assert [row[ROW_ID] for row in rows] == list(range(len(rows)))
    files = {f.path: f for f in table.files()}
    assert len(files) == len(result.files) == len({f.partition_values for f in result.files})
    for appended in result.files:
        stored = files[appended.path]
        assert (stored.spec_id, stored.partition_values) == (1, appended.partition_values)
    assert (None,) in {f.partition_values for f in files.values()}, "the null row has a partition of its own"


@pytest.mark.parametrize(("transform", "param", "type_"), ILLEGAL, ids=names(ILLEGAL))
def test_transforms_that_a_type_does_not_take(catalog, transform, param, type_):
    table = catalog.create_namespace("raw").create_table("events", samples.SCHEMA)
    head = catalog.refresh().head_snapshot_id
    with pytest.raises(ValidationError) as refusal:
        table.alter([ops.set_partition_spec([ops.partition_field(field_of(table, type_), transform, param)])])
    assert transform in refusal.value.detail
    assert catalog.refresh().head_snapshot_id == head
    assert table.info().partition_spec is None


def test_several_fields_and_a_change_of_spec(catalog, filesystem, duck):
    table = catalog.create_namespace("raw").create_table("events", samples.SCHEMA)
    data = samples.table(ROWS)
    table.append(data)
    day = ops.partition_field(field_of(table, "timestamp"), "day")
    bucket = ops.partition_field(field_of(table, "string"), "bucket", 4)
    table.alter([ops.set_partition_spec([day, bucket])])
    table.append(data)
    table.alter([ops.set_partition_spec([bucket])])
    table.append(data)
    table.alter([ops.set_partition_spec([])])
    table.append(data)
    assert table.info().partition_spec is None
    widths = {(f.spec_id, None if f.partition_values is None else len(f.partition_values)) for f in table.files()}
    assert widths == {(None, None), (1, 2), (2, 1)}
    assert multiset(read(table, filesystem, duck), row_ids=False) == multiset(data.to_pylist() * 4, row_ids=False)


def test_a_writer_with_an_outdated_spec_is_refused(catalog):
    namespace = catalog.create_namespace("raw")
    table = namespace.create_table("events", samples.SCHEMA)
    read_snapshot = catalog.refresh().head_snapshot_id
    namespace.table("events").alter([ops.set_partition_spec([ops.partition_field(1, "identity")])])
    url = path("catalogs", catalog.name, "commit")
    stale = {"path": f"{catalog.data_path}/x.parquet", "record_count": 1, "file_size_bytes": 1}
    entry = {"namespace": "raw", "table": table.name, "files": [stale]}
    response = catalog._client._http.post(url, json={"appends": [entry]})
    assert (response.status_code, response.json()["error"]) == (422, "validation")
    response = catalog._client._http.post(url, json={"appends": [entry], "read_snapshot": read_snapshot})
    assert (response.status_code, response.json()["error"]) == (409, "commit_conflict")
    assert ok(catalog._client._http.get(path("catalogs", catalog.name)))["head_snapshot_id"] == read_snapshot + 1


def test_an_empty_partitioned_append_is_the_clients_own_refusal(catalog):
    table = catalog.create_namespace("raw").create_table("events", samples.SCHEMA)
    table.alter([ops.set_partition_spec([ops.partition_field(1, "identity")])])
    with pytest.raises(ValidationError):
        table.append(pa.Table.from_pylist([], schema=samples.SCHEMA))
