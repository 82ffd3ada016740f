"""Schema evolution through pyhoglake, with old files read back under the new schema."""

import pyarrow as pa
import pytest
from pyhoglake import AlreadyExistsError, CommitConflictError, NotFoundError, ValidationError, ops

from lake import ok
from readers import ROW_ID, read

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("score", pa.float32()),
        pa.field("note", pa.string()),
    ]
)


@pytest.fixture
def namespace(catalog):
    return catalog.create_namespace("raw")


@pytest.fixture
def table(namespace):
    return namespace.create_table("events", SCHEMA)


def values(rows, *columns):
    return [tuple(row[c] for c in columns) for row in rows]


def test_evolution_keeps_old_rows_readable(table, catalog, filesystem, duck):
    table.append(pa.table({"id": [1, -2], "score": [0.5, None], "note": ["a", "b"]}, schema=SCHEMA))
    before = catalog.refresh().head_snapshot_id

    info = table.alter(
        [
            ops.promote_column("id", "long"),
            ops.promote_column("score", "double"),
            ops.rename_column("note", "remark"),
            ops.add_column("extra", pa.date32()),
        ]
    )
    assert [(c.name, c.type, c.field_id, c.ordinal) for c in info.columns] == [
        ("id", "long", 1, 0),
        ("score", "double", 2, 1),
        ("remark", "string", 3, 2),
        ("extra", "date", 4, 3),
    ]
    catalog.refresh()
    assert catalog.info.head_snapshot_id == before + 1, "one request, one snapshot"

    wide = pa.schema(
        [("id", pa.int64()), ("score", pa.float64()), ("remark", pa.string()), ("extra", pa.date32())]
    )
    table.append(pa.table({"id": [2**40], "score": [0.1], "remark": ["c"], "extra": [19000]}, schema=wide))
    rows = read(table, filesystem, duck)
    assert values(rows, "id", "score", "remark", ROW_ID) == [
        (1, 0.5, "a", 0),
        (-2, None, "b", 1),
        (2**40, 0.1, "c", 2),
    ]
    assert [row["extra"] is None for row in rows] == [True, True, False]

    old = read(table, filesystem, duck, snapshot=before)
    assert values(old, "id", "score", "note") == [(1, 0.5, "a"), (-2, None, "b")]


def test_a_column_added_again_under_a_dropped_name_is_another_column(table, filesystem, duck):
    table.append(pa.table({"id": [1], "score": [0.5], "note": ["old"]}, schema=SCHEMA))
    table.alter([ops.drop_column("note")])
    info = table.alter([ops.add_column("note", pa.string())])
    assert [(c.name, c.field_id) for c in info.columns] == [("id", 1), ("score", 2), ("note", 4)]
    assert values(read(table, filesystem, duck), "note") == [(None,)]


def test_statistics_of_a_promoted_column_come_back_in_the_present_type(table, catalog):
    table.append(pa.table({"id": [-5, 7], "score": [-0.5, 2.0], "note": ["a", None]}, schema=SCHEMA))
    table.alter([ops.promote_column("id", "long"), ops.promote_column("score", "double")])
    url = f"/catalogs/{catalog.name}/namespaces/raw/tables/events/scan"
    (file,) = ok(catalog._client._http.get(url, params={"stats": "true"}))
    bounds = {s["field_id"]: (s.get("lower_bound"), s.get("upper_bound")) for s in file["column_stats"]}
    assert bounds[1] == ("+/////////8=", "BwAAAAAAAAA="), "int bounds sign-extended to eight bytes"
    assert bounds[2] == ("AAAAAAAA4L8=", "AAAAAAAAAEA="), "float bounds widened to eight bytes"


def test_renaming_a_table(namespace, table, catalog):
    table.append(pa.table({"id": [1], "score": [1.0], "note": ["x"]}, schema=SCHEMA))
    before = catalog.refresh().head_snapshot_id
    table.alter([ops.rename_table("facts")])
    assert namespace.table("facts").table_uuid == table.table_uuid
    with pytest.raises(NotFoundError):
        namespace.table("events")
    assert [t.name for t in namespace.list_tables()] == ["facts"]
    url = f"/catalogs/{catalog.name}/namespaces/raw/tables/events"
    old = ok(catalog._client._http.get(url, params={"snapshot": before}))
    assert (old["name"], old["table_uuid"]) == ("events", table.table_uuid)

    namespace.create_table("events", SCHEMA)
    with pytest.raises(CommitConflictError) as refusal:
        table.alter([ops.rename_table("events")])
    assert refusal.value.message == "already_exists"


def test_sort_order(table, catalog):
    http = catalog._client._http
    url = f"/catalogs/{catalog.name}/namespaces/raw/tables/events"
    fields = [
        {"source_field_id": 2, "direction": "desc", "null_order": "nulls_last"},
        {"source_field_id": 1, "direction": "asc", "null_order": "nulls_first"},
    ]
    altered = ok(http.post(f"{url}/alter", json={"ops": [{"op": "set_sort_order", "sort_fields": fields}]}))
    assert altered["sort_spec"] == {"sort_id": 1, "fields": fields}
    assert ok(http.get(url))["sort_spec"] == altered["sort_spec"]
    with pytest.raises(ValidationError):
        table.alter([ops.drop_column("score")])
    ok(http.post(f"{url}/alter", json={"ops": [{"op": "set_sort_order", "sort_fields": []}]}))
    assert "sort_spec" not in ok(http.get(url))
    assert ok(http.get(url, params={"snapshot": altered["snapshot_id"]}))["sort_spec"] == altered["sort_spec"]
    table.alter([ops.drop_column("score")])


def test_all_or_nothing(table, catalog):
    head, columns = catalog.refresh().head_snapshot_id, table.columns
    with pytest.raises(ValidationError) as refusal:
        table.alter([ops.add_column("fine", pa.int64()), ops.drop_column("absent")])
    assert "absent" in refusal.value.detail
    assert table.info().columns == columns
    assert catalog.refresh().head_snapshot_id == head
    assert table.alter([ops.add_column("fine", pa.int64())]).columns[-1].field_id == 4, "no field id was lost"


def test_names_in_use(namespace, table, catalog, hog):
    with pytest.raises(AlreadyExistsError):
        namespace.create_table("events", SCHEMA)
    with pytest.raises(AlreadyExistsError):
        catalog.create_namespace("raw")
    with pytest.raises(AlreadyExistsError):
        hog.create_catalog(catalog.name, "s3://lake/elsewhere")
    with pytest.raises(NotFoundError):
        namespace.table("absent")
    with pytest.raises(NotFoundError):
        catalog.namespace("absent")
    with pytest.raises(NotFoundError):
        hog.catalog("absent")
    assert catalog.name in [c.name for c in hog.list_catalogs()]
