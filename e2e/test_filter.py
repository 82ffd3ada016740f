"""`filter` on scans: never leaves out a file that could match (DuckDB is the judge), leaves out what it can, and points
at mistakes."""

import random
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyhoglake import ops

import samples
from lake import Lake, ok, refused
from readers import key

SEED = 20260905
FILES = 24
ROWS_A_FILE = 6


def literal(value) -> str:
    """A value as the filter and DuckDB both read it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float, Decimal)):
        return repr(value) if not isinstance(value, Decimal) else str(value)
    if isinstance(value, datetime):
        return f"'{value.isoformat()}'"
    if isinstance(value, (date, time)):
        return f"'{value.isoformat()}'"
    return "'" + value.replace("'", "''") + "'"


def made_up(random_: random.Random, n: int) -> list[dict]:
    """Rows whose values grow with `n`, so that files differ, with nulls and edges among them."""
    base = datetime(2026, 1, 1) + timedelta(days=n)
    rows = []
    for i in range(ROWS_A_FILE):
        row = {
            "c_boolean": n % 3 == 0,
            "c_int": n * 10 + i - 100,
            "c_long": (n - 12) * 10**12 + i,
            "c_float": random_.choice([n + 0.5, -0.0, 0.0, float("nan"), float("inf")]),
            "c_double": n / 7 - 1.0,
            "c_decimal": Decimal(n * 1000 + i).scaleb(-3),
            "c_date": base.date(),
            "c_time": time(n, i, 0, n * 1000),
            "c_timestamp": base + timedelta(microseconds=i),
            "c_timestamptz": (base + timedelta(hours=i)).replace(tzinfo=timezone.utc),
            "c_string": f"{chr(97 + n)}{i}",
            "c_uuid": n.to_bytes(16, "big"),
            "c_binary": bytes([n, i]),
        }
        for name in row:
            if random_.random() < 0.15 or n == 7:
                row[name] = None
        rows.append(row)
    return rows


@pytest.fixture(scope="module", params=["plain", "partitioned", "deferred"])
def table(request, hog, api):
    """A table of many small files, and the plain view of its catalog."""
    random_ = random.Random(SEED)
    name = f"filter-{request.param}"
    catalog = hog.create_catalog(name, f"s3://lake/{name}")
    made = catalog.create_namespace("ns").create_table("t", samples.SCHEMA)
    if request.param == "partitioned":
        fields = {c.name: c.field_id for c in made.columns}
        spec = [
            ops.partition_field(fields["c_date"], "month"),
            ops.partition_field(fields["c_string"], "bucket", 3),
            ops.partition_field(fields["c_boolean"], "identity"),
        ]
        made.alter([ops.set_partition_spec(spec)])
    for n in range(FILES):
        rows = pa.Table.from_pylist(made_up(random_, n), schema=samples.SCHEMA)
        made.append(rows, deferred_stats=request.param == "deferred" and n % 2 == 0)
    return made, Lake(api, name), request.param


OPERATORS = ["=", "!=", "<>", "<", "<=", ">", ">="]
# Columns whose literals the filter and DuckDB spell alike.
SPELLED_ALIKE = [c for c in samples.SCHEMA.names if c not in ("c_uuid", "c_binary", "c_float")]


def predicate(random_: random.Random, rows: list[dict]) -> str:
    column = random_.choice(SPELLED_ALIKE)
    values = [row[column] for row in rows if row[column] is not None]
    pick = lambda: literal(random_.choice(values))  # noqa: E731
    kind = random_.randrange(6)
    negated = random_.choice(["", "NOT "])
    if kind == 0:
        return f"{column} IS {negated}NULL"
    if kind == 1:
        return f"{column} {negated}IN ({', '.join(pick() for _ in range(random_.randint(1, 4)))})"
    if kind == 2 and column != "c_boolean":
        return f"{column} {negated}BETWEEN {pick()} AND {pick()}"
    if kind == 3:
        return f"c_string {negated}STARTS WITH '{random_.choice('abcdefgxyz')}'"
    return f"{column} {random_.choice(OPERATORS)} {pick()}"


def expression(random_: random.Random, rows: list[dict], depth: int = 0) -> str:
    kind = random_.randrange(5) if depth < 3 else 4
    if kind == 0:
        return f"NOT ({expression(random_, rows, depth + 1)})"
    if kind in (1, 2):
        joint = random_.choice(["AND", "OR"])
        return f"({expression(random_, rows, depth + 1)} {joint} {expression(random_, rows, depth + 1)})"
    return predicate(random_, rows)


def as_sql(text: str) -> str:
    """The filter for DuckDB: the same but for STARTS WITH."""
    for negated in ("NOT ", ""):
        for letter in "abcdefgxyz":
            text = text.replace(f"c_string {negated}STARTS WITH '{letter}'", f"({negated}starts_with(c_string, '{letter}'))")
    return text


@pytest.fixture(scope="module")
def loaded(table, duck, filesystem):
    """The rows of each file, in DuckDB."""
    parts = []
    for file in table[0].files():
        read = pq.read_table(key(file.path), filesystem=filesystem)
        parts.append(read.append_column("file", pa.array([file.data_file_id] * read.num_rows, pa.int64())))
    rows = pa.concat_tables([p.replace_schema_metadata(None) for p in parts])
    duck.execute("SET TimeZone = 'UTC'")
    duck.register("loaded", rows)
    yield rows
    duck.unregister("loaded")


def test_no_file_that_matches_is_left_out(table, loaded, duck):
    _, lake, kind = table
    random_ = random.Random(SEED)
    rows = loaded.to_pylist()
    every = {e["data_file"]["data_file_id"] for e in lake.scan()}
    kept_in_all = matching_in_all = 0
    for _ in range(250):
        text = expression(random_, rows)
        response = lake.get_table("t", "scan", filter=text)
        kept = {e["data_file"]["data_file_id"] for e in ok(response)}
        matching = {f for (f,) in duck.execute(f"SELECT DISTINCT file FROM loaded WHERE {as_sql(text)}").fetchall()}
        assert matching <= kept <= every, f"{text}: lost {matching - kept}"
        assert int(response.headers["hoglake-files-considered"]) == len(every)
        assert int(response.headers["hoglake-files-kept"]) == len(kept)
        kept_in_all += len(kept)
        matching_in_all += len(matching)
    if kind == "plain":
        assert kept_in_all < 1.5 * matching_in_all, "bounds prune most of what can be pruned"


EXACT = [
    ("c_int = -97", 1),
    ("c_int IN (-97, -85)", 2),
    ("c_int > 1000", 0),
    ("c_string STARTS WITH 'a'", 1),
    ("c_date = '2026-01-05'", 1),
    ("c_date >= '2027-01-01' OR c_int > 1000", 0),
    ("NOT (c_int <= 1000)", 0),
    ("c_int < -1000 AND c_int > 1000", 0),
    ("c_long IS NOT NULL", FILES - 1),
]


@pytest.mark.parametrize(("text", "files"), EXACT)
def test_what_is_left_out(table, text, files):
    _, lake, kind = table
    if kind == "plain":
        assert len(lake.scan(filter=text)) == files
    else:
        assert len(lake.scan(filter=text)) <= len(lake.scan())


def test_pending_statistics_always_stay(lake):
    lake.append(lake.file(1, column_stats=...))
    lake.append(lake.file(1, column_stats=[]))
    stats = [{"field_id": 1, "value_count": 1, "null_count": 0, "lower_bound": "AQAAAAAAAAA=", "upper_bound": "AQAAAAAAAAA="}]
    lake.append(lake.file(1, column_stats=stats))
    assert len(lake.scan(filter="id = 1")) == 3
    assert len(lake.scan(filter="id = 2")) == 2
    assert len(lake.scan(filter="id IS NULL")) == 2


def test_names_are_those_of_the_snapshot(lake):
    stats = [{"field_id": 1, "value_count": 1, "null_count": 0, "lower_bound": "AQAAAAAAAAA=", "upper_bound": "AQAAAAAAAAA="}]
    before = lake.append(lake.file(1, column_stats=stats))
    ok(lake.alter({"op": "rename_column", "from": "id", "to": "key"}))
    assert len(lake.scan(filter="key = 1")) == 1 and lake.scan(filter="key = 2") == []
    assert len(lake.scan(filter="id = 1", snapshot=before)) == 1
    refused(lake.get_table("t", "scan", filter="id = 1"), 422, "validation", "id")
    refused(lake.get_table("t", "scan", filter="key = 1", snapshot=before), 422, "validation", "key")


def test_quoted_names_and_keywords(bare):
    bare.namespace()
    bare.table(columns=[{"name": n, "type": "int"} for n in ("and", "select", "A-b")])
    for text in ('"and" = 1', 'select = 1 AND "A-b" < 2', '"select" IS NULL or "and" is not null'):
        assert bare.scan(filter=text) == []
    refused(bare.get_table("t", "scan", filter="and = 1"), 422, "validation")


MISTAKES = [
    "id",
    "id =",
    "= 1",
    "id = = 1",
    "id == 'x'",
    "absent = 1",
    "ID = 1",
    "id = 'x'",
    "id = TRUE",
    "name = 1",
    "day = '2026-13-01'",
    "day = '2026-01-01T00:00:00'",
    "day = 1",
    "amount = 'x'",
    "id IN ()",
    "id IN (1,)",
    "id IN 1",
    "id BETWEEN 1",
    "id BETWEEN 1 OR 2",
    "id IS",
    "id IS 1",
    "id IS NOT",
    "id STARTS WITH 1",
    "id STARTS WITH 'x'",
    "name STARTS 'x'",
    "(id = 1",
    "id = 1)",
    "id = 1 AND",
    "id = 1 id = 2",
    "NOT",
    "id = 1; DROP TABLE x",
    "name = 'x",
    'name" = 1',
    "id = 1e",
    "id = NULL",
    "name LIKE 'x%'",
    "(" * 5000 + "id = 1" + ")" * 5000,
    "🦔 = 1",
]


@pytest.mark.parametrize("text", MISTAKES, ids=lambda t: t[:24].strip() or "blank")
def test_mistake(five_columns, text):
    body = refused(five_columns.get_table("t", "scan", filter=text), 422, "validation", "filter")
    assert any(c.isdigit() for c in body["detail"]) or "^" in body["detail"], "the detail points at the place"


@pytest.fixture(scope="module")
def five_columns(api):
    made = Lake(api, "filter-mistakes").create()
    made.namespace()
    made.table()
    return made
