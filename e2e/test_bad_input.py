"""Each operation with each kind of wrong field: the status, the code, and that nothing moved.

The cases come from the contract, so a new operation or field is covered as soon as it is written there; a body that
does not fill every field of its schema fails `test_the_right_bodies_fill_every_field`.
"""

import json

import pytest

import wrong
from contract import CONTRACT
from lake import COLUMNS, NO_SUCH_UUID, TYPES, Lake, ok, refused, segment

# A right value for every field of every request, as far as shape goes.
STATS = {
    "field_id": 1,
    "value_count": 1,
    "null_count": 0,
    "nan_count": 0,
    "size_bytes": 8,
    "lower_bound": "AQAAAAAAAAA=",
    "upper_bound": "AQAAAAAAAAA=",
}
FILE = {
    "path": "s3://lake/bad-input/f.parquet",
    "record_count": 1,
    "file_size_bytes": 100,
    "footer_size": 10,
    "column_stats": [STATS],
    "partition_values": ["x"],
}
VECTOR = {"data_file_id": 1, "path": "s3://lake/bad-input/d.puffin", "delete_count": 1, "file_size_bytes": 10}
COLUMN = {"name": "c", "type": "decimal", "type_params": {"precision": 9, "scale": 2}, "nullable": True}
RIGHT = {
    "createCatalog": {"name": "bad-input-other", "data_path": "s3://lake/bad-input-other"},
    "patchCatalogOptions": {"snapshot_retention_seconds": 3600, "consumer_floor": True},
    "createNamespace": {"name": "other"},
    "createTable": {"name": "other", "columns": [COLUMN]},
    "createView": {"name": "other", "sql": "SELECT 1", "dialect": "trino"},
    "alterTable": {
        "ops": [
            {
                "op": "add_column",
                "column": COLUMN,
                "name": "c",
                "from": "a",
                "to": "b",
                "new_name": "t2",
                "fields": [{"source_field_id": 1, "transform": "bucket", "transform_param": 4}],
                "sort_fields": [{"source_field_id": 1, "direction": "asc", "null_order": "nulls_last"}],
            }
        ]
    },
    "commit": {
        "read_snapshot": 2,
        "appends": [{"namespace": "ns", "table": "t", "expected_table_uuid": NO_SUCH_UUID, "files": [FILE]}],
        "deletes": [{"namespace": "ns", "table": "t", "expected_table_uuid": NO_SUCH_UUID, "files": [VECTOR]}],
        "author": "a",
        "message": "m",
    },
    "commitConsumerOffset": {"snapshot_id": 2},
    "createPublication": {
        "name": "p",
        "namespace": "ns",
        "table": "t",
        "sink": {
            "type": "kafka",
            "bootstrap_servers": "127.0.0.1:1",
            "topic": "t",
            "format": "json",
            "tombstones": False,
        },
        "from_snapshot": 1,
    },
}
BUILT = CONTRACT.operations
WITH_BODY = [o for o in CONTRACT.operations if o.body_schema]
WRONG_BODIES = [
    pytest.param(operation, body, id=f"{operation.id}: {label}")
    for operation in BUILT
    if operation.body_schema
    for label, body in wrong.bodies(operation.body_schema, RIGHT[operation.id])
]
WRONG_TEXTS = {
    "nothing": b"",
    "blanks": b"  \n",
    "half an object": b'{"name": "x"',
    "two values": b"{} {}",
    "trailing comma": b'{"name": "x",}',
    "single quotes": b"{'name': 'x'}",
    "a comment": b"/* x */ {}",
    "NaN": b'{"name": NaN}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "UTF-32": '{"name": "x"}'.encode("utf-32-be"),
    "bytes that are no UTF-8": b'{"name": "\xff\xfe"}',
    "a lone surrogate": b'{"name": "\\ud800"}',
    "a field twice": b'{"name": "x", "name": "y"}',
    "too deep": b'{"name":' * 4000,
    "gzip that is none": b"\x1f\x8b\x08\x00",
}


@pytest.fixture(scope="module")
def lake(api) -> Lake:
    made = Lake(api, "bad-input").create()
    made.namespace()
    made.table()
    ok(made.post("namespaces", "ns", "views", json={"name": "v", "sql": "SELECT 1"}), 201)
    return made


def url(operation, lake, **values) -> str:
    """The URL of an operation, on things that exist unless `values` says otherwise."""
    values = {
        "catalog": lake.name,
        "namespace": "ns",
        "table": "t",
        "view": "v",
        "consumer": "group",
        "tableUuid": NO_SUCH_UUID,
        "publication": "p",
    } | values
    return operation.path.format_map({name: segment(value) for name, value in values.items()})


def send(operation, lake, *, json=None, content=None, headers=None, params=None, **values):
    if content is not None:
        headers = {"content-type": "application/json"} | (headers or {})
    return lake.api.request(
        operation.method, url(operation, lake, **values), json=json, content=content, headers=headers, params=params
    )


@pytest.mark.parametrize("operation", WITH_BODY, ids=str)
def test_the_right_bodies_fill_every_field(operation):
    assert wrong.untouched(operation.body_schema, RIGHT[operation.id]) == []
    validator = CONTRACT.validator(operation.body_schema)
    assert [e.message for e in validator.iter_errors(RIGHT[operation.id])] == []


@pytest.mark.parametrize("operation", [o for o in BUILT if o.body_schema], ids=str)
def test_the_right_bodies_can_be_read(operation, api, name):
    """Otherwise every case below would be refused for a reason of its own."""
    lake = Lake(api, name).create()
    lake.namespace()
    lake.table()
    body = RIGHT[operation.id]
    if operation.id == "createCatalog":
        body = {"name": f"{name}-x"[:63], "data_path": f"s3://lake/{name}-x"}
    response = send(operation, lake, json=body)
    assert response.status_code != 400, response.text


@pytest.mark.parametrize(("operation", "body"), WRONG_BODIES)
def test_wrong_body(operation, body, lake):
    with lake.unchanged():
        refused(send(operation, lake, content=json.dumps(body).encode()), 400, "bad_request")


@pytest.mark.parametrize("text", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
@pytest.mark.parametrize("operation", [o for o in BUILT if o.body_schema], ids=str)
def test_unreadable_body(operation, text, lake):
    with lake.unchanged():
        refused(send(operation, lake, content=text), 400, "bad_request")


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
@pytest.mark.parametrize("operation", [o for o in BUILT if o.body_schema], ids=str)
def test_wrong_content_type(operation, content_type, lake):
    body = json.dumps(RIGHT[operation.id]).encode()
    with lake.unchanged():
        refused(send(operation, lake, content=body, headers={"content-type": content_type}), 400, "bad_request")


@pytest.mark.parametrize("operation", [o for o in BUILT if o.body_schema], ids=str)
def test_a_body_over_the_limit(operation, lake):
    body = b'{"name": "' + b"x" * (64 * 1024 * 1024 + 1) + b'"}'
    with lake.unchanged():
        refused(send(operation, lake, content=body), 413, "payload_too_large")


# Parameters.

WRONG_VALUES = {
    "int64": ["x", "1.5", "", " ", "1e3", "0x1", "1_000", str(2**63), str(-(2**63) - 1), "9" * 40],
    "boolean": ["maybe", "2", "yes", ""],
    "date-time": ["yesterday", "", "2026-09-05", "2026-09-05T00:00:00", "2026-13-05T00:00:00Z", "2026-09-05T25:00:00Z"],
    "uuid": ["not-a-uuid", "0", "{}", "g" * 36],
}
# Values that are as good as absent where the operation asks for something else first are never sent alone.
NEEDED = {"getChanges": {"from_snapshot": "1"}, "resolveSnapshot": {"at_timestamp": "2999-01-01T00:00:00Z"}}


def parameters():
    for operation in BUILT:
        for parameter in operation.parameters:
            schema = parameter["schema"]
            kind = schema.get("format") or ("int64" if schema["type"] == "integer" else schema["type"])
            if parameter["in"] in ("query", "path"):
                for value in WRONG_VALUES.get(kind, []):
                    yield pytest.param(operation, parameter, value, id=f"{operation.id}: {parameter['name']}={value[:24]}")


@pytest.mark.parametrize(("operation", "parameter", "value"), list(parameters()))
def test_wrong_parameter(operation, parameter, value, lake):
    body = RIGHT.get(operation.id)
    with lake.unchanged():
        if parameter["in"] == "path":
            response = send(operation, lake, json=body, **{parameter["name"]: value})
        else:
            response = send(operation, lake, json=body, params=NEEDED.get(operation.id, {}) | {parameter["name"]: value})
        refused(response, 400, "bad_request", parameter["name"])


@pytest.mark.parametrize(
    ("operation", "parameter"),
    [
        pytest.param(o, p, id=f"{o.id}: {p['name']}")
        for o in BUILT
        for p in o.parameters
        if p["in"] == "query" and p.get("required")
    ],
)
def test_missing_parameter(operation, parameter, lake):
    refused(send(operation, lake), 400, "bad_request", parameter["name"])


# Names that nothing has.

HOSTILE = [
    "absent",
    "UPPER",
    "a/b",
    "../etc",
    "a b",
    "'; DROP TABLE hog_catalog; --",
    'x" OR 1=1',
    "naïve",
    "🦔",
    "\x00",
    "a\nb",
    "%",
    "%2F",
    "9" * 129,
    "n" * 10_000,
]
LOOKED_UP = ("catalog", "namespace", "table", "view", "publication")


def lookups():
    for operation in BUILT:
        for parameter in operation.parameters:
            if parameter["in"] == "path" and parameter["name"] in LOOKED_UP:
                for value in HOSTILE:
                    label = f"{operation.id}: {parameter['name']}={value[:20].encode('unicode_escape').decode()}"
                    yield pytest.param(operation, parameter["name"], value, id=label)


@pytest.mark.parametrize(("operation", "parameter", "value"), list(lookups()))
def test_names_that_nothing_has(operation, parameter, value, lake):
    body = RIGHT.get(operation.id)
    if operation.id == "commit":
        # Nothing in the body may be refused before the catalog is looked up.
        body = {"appends": [{"namespace": "ns", "table": "t", "files": [FILE]}]}
    with lake.unchanged():
        response = send(operation, lake, json=body, params=NEEDED.get(operation.id), **{parameter: value})
        refused(response, 404, "not_found")


# Values of names on create.

LEGAL_NAMES = ["a", "_leading", "UPPER-Case_9", "a" * 128]
ILLEGAL_NAMES = ["", " ", "9a", "-a", "a b", "a/b", "a.b", "a'b", 'a"b', "naïve", "🦔", "a\x01", "a" * 129, "n" * 10_000]
NAMED = {
    "createNamespace": lambda name: {"name": name},
    "createTable": lambda name: {"name": name, "columns": COLUMNS},
    "createTable (column)": lambda name: {"name": "c", "columns": [{"name": name, "type": "long"}]},
    "createView": lambda name: {"name": name, "sql": "SELECT 1"},
    "alterTable (add_column)": lambda name: {"ops": [{"op": "add_column", "column": {"name": name, "type": "int"}}]},
    "alterTable (rename_column)": lambda name: {"ops": [{"op": "rename_column", "from": "name", "to": name}]},
    "alterTable (rename_table)": lambda name: {"ops": [{"op": "rename_table", "new_name": name}]},
}


@pytest.mark.parametrize("value", ILLEGAL_NAMES, ids=lambda v: v[:12].encode("unicode_escape").decode() or "empty")
@pytest.mark.parametrize("what", NAMED)
def test_illegal_name(what, value, lake):
    with lake.unchanged():
        refused(send(CONTRACT.by_id[what.split()[0]], lake, json=NAMED[what](value)), 422, "validation", "name")


@pytest.mark.parametrize("what", NAMED)
def test_legal_names(what, api, name):
    lake = Lake(api, name).create()
    lake.namespace()
    for number, value in enumerate(LEGAL_NAMES):
        table = f"t{number}"
        lake.table(table)
        ok(send(CONTRACT.by_id[what.split()[0]], lake, json=NAMED[what](value), table=table))
        if what == "createTable (column)":
            ok(lake.delete("namespaces", "ns", "tables", "c"))


RESERVED = ["_hog", "_hog_row_id", "_HOG_x", "_Hogwarts"]


@pytest.mark.parametrize("value", RESERVED)
@pytest.mark.parametrize("what", ["createTable (column)", "alterTable (add_column)", "alterTable (rename_column)"])
def test_reserved_column_name(what, value, lake):
    with lake.unchanged():
        refused(send(CONTRACT.by_id[what.split()[0]], lake, json=NAMED[what](value)), 422, "validation", "_hog")


@pytest.mark.parametrize("what", ["createNamespace", "createTable", "createView"])
def test_the_reserved_prefix_is_for_columns_only(what, lake):
    ok(send(CONTRACT.by_id[what], lake, json=NAMED[what]("_hog_row_id")), 201)


CATALOG_NAMES = {
    "a": 201,
    "x9-_": 201,
    "a" * 63: 201,
    "a" * 64: 422,
    "": 422,
    "A": 422,
    "aB": 422,
    "9a": 422,
    "_a": 422,
    "-a": 422,
    "a.b": 422,
    "a b": 422,
    "ä": 422,
}


@pytest.mark.parametrize("value", CATALOG_NAMES, ids=lambda v: v[:12] or "empty")
def test_catalog_name(value, api):
    response = api.post("/catalogs", json={"name": value, "data_path": f"s3://lake/names/{len(value)}{value[:1]}x"})
    if CATALOG_NAMES[value] == 201:
        assert ok(response, 201)["head_snapshot_id"] == 0
    else:
        refused(response, 422, "validation", "name")


def test_nothing_wrong_was_let_in(lake):
    """After everything above, the next commit gets the next ids: no allocator moved."""
    head = lake.head()
    assert lake.append(lake.file()) == head + 1
    assert lake.files()[-1]["data_file_id"] == 1
    assert lake.files()[-1]["row_id_start"] == 0
    assert [c["name"] for c in ok(lake.get_table())["columns"]] == [c["name"] for c in COLUMNS]
    assert set(TYPES) >= {c["type"] for c in COLUMNS}
