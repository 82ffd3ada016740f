"""The rules of each alter operation, of table creation and of views, as tables."""

import pytest

from lake import COLUMNS, TYPES, Lake, column, ok, refused

# Column ids of the table that the cases run on: one column of each type, named after it.
FIELD = {type_: n for n, type_ in enumerate(TYPES, start=1)}


def add(name, type_="int", **extra):
    return {"op": "add_column", "column": column(name, type_, **extra)}


def drop(name):
    return {"op": "drop_column", "name": name}


def rename(old, new):
    return {"op": "rename_column", "from": old, "to": new}


def promote(name, to):
    return {"op": "promote_column", "name": name, "to": to}


def partition(*fields):
    return {"op": "set_partition_spec", "fields": list(fields)}


def part(source, transform="identity", param=...):
    field = {"source_field_id": FIELD.get(source, source), "transform": transform}
    return field if param is ... else {**field, "transform_param": param}


def order(*fields):
    return {"op": "set_sort_order", "sort_fields": list(fields)}


def by(source, direction="asc", null_order="nulls_last"):
    return {"source_field_id": FIELD.get(source, source), "direction": direction, "null_order": null_order}


def make(api, name) -> Lake:
    lake = Lake(api, name).create()
    lake.namespace()
    lake.table(columns=[column(type_, type_) for type_ in TYPES])
    return lake


@pytest.fixture(scope="module")
def shared(api) -> Lake:
    """Only refused alters reach it. Partitioned by `date`, sorted by `long`; `other` has the name of another table."""
    made = make(api, "alter-rules")
    made.table("other")
    ok(made.alter(partition(part("date", "day")), order(by("long"))))
    return made


@pytest.fixture
def wide(api, name) -> Lake:
    return make(api, name)


REFUSED = {
    "add: name taken": [add("int")],
    "add: name taken by the op before": [add("x"), add("x")],
    "add: unknown type": [add("x", "varchar2")],
    "add: type in capitals": [add("x", "LONG")],
    "add: type with a suffix": [add("x", "uuid_t")],
    "add: decimal without parameters": [{"op": "add_column", "column": {"name": "x", "type": "decimal"}}],
    "drop: unknown": [drop("absent")],
    "drop: other case": [drop("INT")],
    "drop: twice": [drop("int"), drop("int")],
    "drop: in the partition spec": [drop("date")],
    "drop: in the sort order": [drop("long")],
    "drop: all": [partition(), order(), *(drop(t) for t in TYPES)],
    "rename: unknown": [rename("absent", "x")],
    "rename: onto another": [rename("int", "string")],
    "rename: onto itself": [rename("int", "int")],
    "rename: under the old name": [rename("int", "x"), rename("int", "y")],
    "rename: dropped before": [drop("int"), rename("int", "x")],
    "promote: unknown": [promote("absent", "long")],
    "promote: same type": [promote("int", "int")],
    "promote: long to int": [promote("long", "int")],
    "promote: double to float": [promote("double", "float")],
    "promote: int to double": [promote("int", "double")],
    "promote: int to string": [promote("int", "string")],
    "promote: float to decimal": [promote("float", "decimal")],
    "promote: date to timestamp": [promote("date", "timestamp")],
    "promote: to an unknown type": [promote("int", "hugeint")],
    "promote: twice": [promote("int", "long"), promote("int", "long")],
    "partition: unknown column": [partition(part(99))],
    "partition: column 0": [partition(part(0))],
    "partition: the row id": [partition(part(2147483646))],
    "partition: column dropped before": [drop("int"), partition(part("int"))],
    "partition: dropped and added again": [drop("int"), add("int"), partition(part("int"))],
    "partition: unknown transform": [partition(part("int", "truncate", 4))],
    "partition: transform in capitals": [partition(part("int", "IDENTITY"))],
    "partition: bucket without a number": [partition(part("int", "bucket"))],
    "partition: bucket with null": [partition(part("int", "bucket", None))],
    "partition: bucket 0": [partition(part("int", "bucket", 0))],
    "partition: bucket -1": [partition(part("int", "bucket", -1))],
    "partition: bucket of boolean": [partition(part("boolean", "bucket", 4))],
    "partition: bucket of float": [partition(part("float", "bucket", 4))],
    "partition: bucket of double": [partition(part("double", "bucket", 4))],
    "partition: identity with a number": [partition(part("int", "identity", 4))],
    "partition: day with a number": [partition(part("date", "day", 1))],
    "partition: day of a string": [partition(part("string", "day"))],
    "partition: month of a time": [partition(part("time", "month"))],
    "partition: hour of a date": [partition(part("date", "hour"))],
    "sort: unknown column": [order(by(99))],
    "sort: one column twice": [order(by("int"), by("string"), by("int", "desc"))],
    "sort: unknown direction": [order(by("int", "up"))],
    "sort: direction in capitals": [order(by("int", "ASC"))],
    "sort: unknown null order": [order(by("int", "asc", "nulls_middle"))],
    "add after a fault": [drop("absent"), add("x")],
}
BAD_REQUEST = {
    "unknown op": [{"op": "explode_table"}],
    "op in capitals": [{"op": "ADD_COLUMN", "column": column("x", "int")}],
    "no ops": [],
    "add without column": [{"op": "add_column"}],
    "add with null column": [{"op": "add_column", "column": None}],
    "drop without name": [{"op": "drop_column"}],
    "rename without from": [{"op": "rename_column", "to": "x"}],
    "rename without to": [{"op": "rename_column", "from": "int"}],
    "promote without name": [{"op": "promote_column", "to": "long"}],
    "promote without to": [{"op": "promote_column", "name": "int"}],
    "rename_table without new_name": [{"op": "rename_table"}],
    "partition without fields": [{"op": "set_partition_spec"}],
    "sort without sort_fields": [{"op": "set_sort_order"}],
    "a good op, then an unknown one": [add("x"), {"op": "explode_table"}],
    "a good op, then one without its operand": [add("x"), {"op": "drop_column"}],
}


@pytest.mark.parametrize("case", REFUSED)
def test_alter_refused(shared, case):
    with shared.unchanged():
        refused(shared.alter(*REFUSED[case]), 422, "validation")


@pytest.mark.parametrize("case", BAD_REQUEST)
def test_alter_unreadable(shared, case):
    with shared.unchanged():
        refused(shared.alter(*BAD_REQUEST[case]), 400, "bad_request")


def test_renaming_onto_a_live_table(shared):
    with shared.unchanged():
        refused(shared.alter({"op": "rename_table", "new_name": "other"}), 409, "already_exists", "other")


def test_an_undone_operation_leaves_no_trace(wide):
    before = ok(wide.get_table())
    for ops in ([add("x"), drop("absent")], [drop("int"), promote("string", "long")], [order(by("int")), partition(part(99))]):
        with wide.unchanged():
            refused(wide.alter(*ops), 422, "validation")
    assert ok(wide.get_table()) == before
    altered = ok(wide.alter(add("x"), partition(part("int")), order(by("int"))))
    assert altered["columns"][-1]["field_id"] == 14
    assert (altered["partition_spec"]["spec_id"], altered["sort_spec"]["sort_id"]) == (1, 1)


ACCEPTED = {
    "add and use": [add("x", "timestamp"), partition(part(14, "hour")), order(by(14, "desc", "nulls_first"))],
    "add required": [add("x", "int", nullable=False)],
    "add, rename, promote and drop the same": [add("x"), rename("x", "y"), promote("y", "long"), drop("y")],
    "drop and add again": [drop("int"), add("int")],
    "swap two names": [rename("int", "tmp"), rename("long", "int"), rename("tmp", "long")],
    "free a column and drop it": [partition(part("date")), partition(), drop("date")],
    "several fields on one column": [partition(part("date", "year"), part("date", "bucket", 4))],
    "bucket 1": [partition(part("string", "bucket", 1))],
    "transform_param null": [partition(part("string", "identity", None))],
    "rename the table and go on": [{"op": "rename_table", "new_name": "t"}, add("x")],
    "operands of other ops": [{**drop("int"), "from": "x", "new_name": None, "fields": []}],
    "promote both": [promote("int", "long"), promote("float", "double")],
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_alter_accepted(wide, case):
    head = wide.head()
    altered = ok(wide.alter(*ACCEPTED[case]))
    assert altered.pop("snapshot_id") == head + 1
    assert ok(wide.get_table()) == altered
    names, ids = [c["name"] for c in altered["columns"]], [c["field_id"] for c in altered["columns"]]
    assert len(set(names)) == len(names) and len(set(ids)) == len(ids)


def test_field_ids_are_never_given_twice(wide):
    used = {c["field_id"] for c in ok(wide.get_table())["columns"]}
    for _ in range(5):
        altered = ok(wide.alter(add("x")))
        (made,) = {c["field_id"] for c in altered["columns"]} - used
        used.add(made)
        ok(wide.alter(drop("x")))
    assert used == set(range(1, 19))


def test_spec_and_sort_ids_are_never_given_twice(wide):
    specs, sorts = [], []
    for n in range(4):
        altered = ok(wide.alter(partition(part("int", "bucket", n + 1)), order(by("int"))))
        specs.append(altered["partition_spec"]["spec_id"])
        sorts.append(altered["sort_spec"]["sort_id"])
        ok(wide.alter(partition(), order()))
    assert len(set(specs)) == 4 and specs == sorted(specs)
    assert len(set(sorts)) == 4 and sorts == sorted(sorts)


def test_a_spec_is_seen_where_it_lived(wide):
    spec = [part("int", "bucket", 4)]
    altered = ok(wide.alter(partition(*spec)))
    assert altered["partition_spec"]["fields"] == spec == ok(wide.get_table())["partition_spec"]["fields"]
    ok(wide.alter(partition()))
    assert "partition_spec" not in ok(wide.get_table())
    assert ok(wide.get_table(snapshot=altered["snapshot_id"]))["partition_spec"] == altered["partition_spec"]
    assert "partition_spec" not in ok(wide.get_table(snapshot=2))


def test_columns_are_seen_as_they_were(wide):
    before = ok(wide.get_table())["columns"]
    ok(wide.alter(drop("int"), rename("string", "text"), promote("float", "double"), add("x")))
    assert ok(wide.get_table(snapshot=2))["columns"] == before
    after = {c["field_id"]: (c["name"], c["type"]) for c in ok(wide.get_table())["columns"]}
    assert FIELD["int"] not in after
    assert (after[FIELD["string"]], after[FIELD["float"]]) == (("text", "string"), ("float", "double"))



def test_a_rename_waits_for_files_whose_ids_are_unknown(wide):
    wide.append(wide.file(1, column_stats=...))
    with wide.unchanged():
        refused(wide.alter(rename("int", "x")), 409, "idless_files_present")
    ok(wide.alter({"op": "rename_table", "new_name": "u"}))
    ok(wide.alter({"op": "rename_table", "new_name": "t"}, table="u"))
    ok(wide.delete("namespaces", "ns", "tables", "t"))
    wide.table(columns=COLUMNS)
    wide.append()
    ok(wide.alter(rename("name", "x")))


# Creating tables.

TABLES_REFUSED = {
    "no columns": [],
    "one name twice": [column("a", "int"), column("a", "long")],
    "unknown type": [column("a", "varchar2")],
    "type in capitals": [column("a", "STRING")],
    "empty type": [column("a", "")],
    "reserved name": [column("_hog_row_id", "long")],
    "decimal without parameters": [{"name": "a", "type": "decimal"}],
    "decimal with null parameters": [{"name": "a", "type": "decimal", "type_params": None}],
    "decimal without scale": [column("a", "decimal", type_params={"precision": 9})],
    "decimal without precision": [column("a", "decimal", type_params={"scale": 2})],
    "decimal of text": [column("a", "decimal", type_params={"precision": "10", "scale": 2})],
    "decimal of fractions": [column("a", "decimal", type_params={"precision": 10.5, "scale": 2})],
    "decimal of 0": [column("a", "decimal", type_params={"precision": 0, "scale": 0})],
    "decimal of 39": [column("a", "decimal", type_params={"precision": 39, "scale": 0})],
    "decimal of 300": [column("a", "decimal", type_params={"precision": 300, "scale": 0})],
    "decimal of -1": [column("a", "decimal", type_params={"precision": -1, "scale": 0})],
    "negative scale": [column("a", "decimal", type_params={"precision": 10, "scale": -1})],
    "scale above precision": [column("a", "decimal", type_params={"precision": 10, "scale": 11})],
}


@pytest.mark.parametrize("case", TABLES_REFUSED)
def test_table_refused(shared, case):
    body = {"name": "made", "columns": TABLES_REFUSED[case]}
    with shared.unchanged():
        refused(shared.post("namespaces", "ns", "tables", json=body), 422, "validation")


@pytest.mark.parametrize("type_", TYPES)
def test_each_type_alone(bare, type_):
    bare.namespace()
    sent = {**column("a", type_), "nullable": False}
    if type_ == "decimal":
        sent["type_params"] = {"precision": 38, "scale": 38, "note": "kept"}
    (made,) = bare.table(columns=[sent])["columns"]
    assert made == {**sent, "field_id": 1, "ordinal": 0}


def test_names_are_case_sensitive(bare):
    bare.namespace()
    assert [c["name"] for c in bare.table(columns=[column("a", "int"), column("A", "long")])["columns"]] == ["a", "A"]
    assert bare.table("T")["table_uuid"] != ok(bare.get_table("t"))["table_uuid"]
    refused(bare.get_table("t", namespace="NS"), 404, "not_found")


def test_taken_names(lake):
    with lake.unchanged():
        refused(lake.post("namespaces", json={"name": "ns"}), 409, "already_exists", "ns")
        body = {"name": "t", "columns": COLUMNS}
        refused(lake.post("namespaces", "ns", "tables", json=body), 409, "already_exists", "t")
        refused(lake.api.post("/catalogs", json={"name": lake.name, "data_path": "s3://lake/zz"}), 409, "already_exists")


# Views.

VIEWS_REFUSED = {
    "blank sql": {"sql": ""},
    "sql of blanks": {"sql": " \n\t"},
    "blank dialect": {"dialect": ""},
    "dialect of blanks": {"dialect": "  "},
}


@pytest.mark.parametrize("case", VIEWS_REFUSED)
def test_view_refused(shared, case):
    body = {"name": "v", "sql": "SELECT 1", "dialect": "trino", **VIEWS_REFUSED[case]}
    with shared.unchanged():
        refused(shared.post("namespaces", "ns", "views", json=body), 422, "validation")


def test_views(lake):
    sql = "SELECT '" + "x" * 1_000_000 + "🦔\r\n'"
    made = ok(lake.post("namespaces", "ns", "views", json={"name": "v", "sql": sql}), 201)
    assert (made["sql"], made["dialect"], made["namespace"]) == (sql, "trino", "ns")
    assert ok(lake.post("namespaces", "ns", "views", json={"name": "w", "sql": "x", "dialect": None}), 201)["dialect"] == "trino"
    stored = ok(lake.get("namespaces", "ns", "views", "v"))
    assert stored == {k: v for k, v in made.items() if k != "snapshot_id"}
    with lake.unchanged():
        refused(lake.post("namespaces", "ns", "views", json={"name": "v", "sql": "x"}), 409, "already_exists")
    head = lake.head()
    assert ok(lake.delete("namespaces", "ns", "views", "v")) == {"snapshot_id": head + 1, "schema_version": head + 1}
    with lake.unchanged():
        refused(lake.delete("namespaces", "ns", "views", "v"), 404, "not_found", "v")
    kinds = [c["kind"] for s in ok(lake.get("snapshots", after=2))["snapshots"] for c in s["changes"]]
    assert kinds == ["view_created", "view_created", "view_dropped"]
