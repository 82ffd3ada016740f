"""Reads tables with other projects' engines and prints what they see.

tables.py FILE      a file with a JSON list of ["iceberg", METADATA_JSON] and ["delta", TABLE]; prints for each
                    {"pyiceberg": [...], "duckdb": [...], "problems": [...]} or {"delta-rs": [...], "duckdb": [...],
                    "problems": [...]}. A reader that fails is left out, and "error" says why.

Each list holds the table's rows as sorted JSON texts. Problems are what only one reader would not show: a count from
metadata that differs from the rows, or a predicate at a column's minimum or maximum that loses rows (wrong statistics
show there). ["delta rows", TABLE] and ["iceberg rows", METADATA_JSON] are read without such trials, the latter also where
the table was copied from the place that its metadata names; ["expected rows", EXPECTED_JSON] are those that the corpus has
noted, {"expected": [...]} if it has all.
"""
import concurrent.futures
import datetime
import decimal
import functools
import json
import math
import re
import sys
import uuid
import warnings

import duckdb
import pyarrow as pa

warnings.simplefilter("ignore")


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in sorted(value.items())}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value + 0.0)
    if isinstance(value, decimal.Decimal):
        return format(value.normalize(), "f")
    if isinstance(value, datetime.datetime):
        if value.tzinfo:
            value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return value.isoformat(timespec="microseconds")
    if isinstance(value, (datetime.date, datetime.time)):
        return str(value)
    if isinstance(value, uuid.UUID):
        return value.hex  # as where it is binary
    if isinstance(value, (bytes, bytearray)):
        return value.hex()
    return value


def rows(table):
    return sorted(json.dumps(plain(r), sort_keys=True) for r in table.to_pylist())


def extremes(table):
    """Smallest and largest value of each column that readers prune by, with how often it occurs."""
    for name in table.column_names:
        column = table.column(name)
        ty = column.type
        if "." in name or "`" in name:
            continue  # PyIceberg takes a dot for a path.
        if not (pa.types.is_integer(ty) or pa.types.is_string(ty) or pa.types.is_large_string(ty) or pa.types.is_date(ty)
                or pa.types.is_decimal(ty) or pa.types.is_timestamp(ty) or pa.types.is_floating(ty)):
            continue
        values = [v for v in column.to_pylist() if v is not None and not (isinstance(v, float) and math.isnan(v))]
        for value in {min(values), max(values)} if values else ():
            yield name, value, sum(v == value for v in values)


def duck(more=()):
    connection = duckdb.connect()
    for name in (*more, "avro", "iceberg", "delta"):
        package = __import__(f"duckdb_extension_{name}")
        path = f"{package.__path__[0]}/extensions/v{duckdb.__version__}/{name}.duckdb_extension"
        connection.execute(f"load '{path}'")
    connection.execute("set timezone = 'UTC'")
    return connection


local_duck = functools.cache(duck)  # Loading the extensions takes longer than most tables.


def by_duckdb(scan, problems=None):
    """Rows; trials go to `problems`, if there are to be any."""
    connection = local_duck()
    table = connection.execute(f"select * from {scan}").to_arrow_table()
    if problems is None:
        return rows(table)
    count = connection.execute(f"select count(*) from {scan}").fetchone()[0]
    if count != table.num_rows:
        problems.append(f"duckdb counts {count} rows from metadata and reads {table.num_rows}")
    for name, value, expected in extremes(table):
        quoted = '"' + name.replace('"', '""') + '"'
        found = connection.execute(f"select count(*) from {scan} where {quoted} = ?", [value]).fetchone()[0]
        if found != expected:
            problems.append(f"duckdb finds {found} rows with {name} = {value!r} instead of {expected}")
    return rows(table)


def by_pyiceberg(path, problems):
    from pyiceberg.expressions import EqualTo
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(path)
    read = table.scan().to_arrow()
    for name, value, expected in extremes(read):
        if isinstance(value, (datetime.date, datetime.datetime)):
            value = value.isoformat()
        try:
            found = table.scan(row_filter=EqualTo(name, value)).to_arrow().num_rows
        except (TypeError, ValueError) as e:
            problems.append(f"pyiceberg cannot filter {name} = {value!r}: {e}")
            continue
        if found != expected:
            problems.append(f"pyiceberg finds {found} rows with {name} = {value!r} instead of {expected}")
    files = table.inspect.files() if read.num_rows else pa.table({"record_count": [], "content": []})
    records = sum(r for r, c in zip(files["record_count"].to_pylist(), files["content"].to_pylist()) if c == 0)
    deleted = sum(r for r, c in zip(files["record_count"].to_pylist(), files["content"].to_pylist()) if c == 1)
    if records - deleted != read.num_rows:
        problems.append(f"the manifests count {records} - {deleted} rows, there are {read.num_rows}")
    return rows(read)


def moved(path):
    """The rows of a table that was copied, by PyIceberg."""
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.table import StaticTable

    folder = path.rsplit("/metadata/", 1)[0]
    table = StaticTable.from_metadata(path)
    declared = table.metadata.location.split("://")[-1].rstrip("/") + "/"

    class Moved(PyArrowFileIO):
        def new_input(self, location):
            at = location.find(declared)
            below = location[at + len(declared):] if at >= 0 else location[max(map(location.rfind, ("/metadata/", "/data/"))) + 1:]
            return super().new_input(location if location.startswith(folder) else f"{folder}/{below}")

    table.io = Moved(table.io.properties)
    return rows(table.scan().to_arrow())


def moved_scan(path):
    """The same by DuckDB, which wants the folder and the file's name without its end."""
    folder, name = path.rsplit("/metadata/", 1)
    return f"iceberg_scan('{folder}', allow_moved_paths = true, version = '{name.removesuffix('.metadata.json')}')"


def by_delta_rs(path, problems=None):
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(path)
    read = pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all())
    for name, value, expected in extremes(read) if problems is not None else ():
        quoted = '"' + name.replace('"', '""') + '"'
        literal = f"'{value}'" if not isinstance(value, (int, float, decimal.Decimal)) else str(value)
        if isinstance(value, decimal.Decimal):
            ty = read.schema.field(name).type
            literal = f"cast('{value}' as decimal({ty.precision},{ty.scale}))"
        if isinstance(value, datetime.datetime):
            literal = f"timestamp '{value.isoformat()}'" if value.tzinfo is None else f"timestamptz '{value.isoformat()}'"
        found = QueryBuilder().register("t", table).execute(f"select count(*) as n from t where {quoted} = {literal}").read_all()
        found = pa.table(found)["n"][0].as_py()
        if found != expected:
            problems.append(f"delta-rs finds {found} rows with {name} = {value!r} instead of {expected}")
    return rows(read)


def expected(path):
    """The rows that the corpus has noted of a table, in the spelling of `plain`."""
    def noted(value):
        if isinstance(value, dict):
            return {k: noted(v) for k, v in value.items()}
        if isinstance(value, list):
            return [noted(v) for v in value]
        if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?", value):
            value = value.removesuffix("+00:00")
            return value + ("" if "." in value else ".000000")
        if isinstance(value, str) and value.startswith("0x"):
            return value[2:]
        return plain(value)

    with open(path) as file:
        case = json.load(file)
    if not case["rows_complete"]:
        raise LookupError("the corpus has not noted all rows")
    return sorted(json.dumps(noted(row), sort_keys=True) for row in case["sample_rows"])


def seen(command, path):
    problems, found, errors = [], {}, []
    readers = {
        "iceberg": {"pyiceberg": lambda: by_pyiceberg(path, problems),
                    "duckdb": lambda: by_duckdb(f"iceberg_scan('{path}')", problems)},
        "iceberg rows": {"pyiceberg": lambda: moved(path),
                         "duckdb": lambda: by_duckdb(moved_scan(path))},
        "delta": {"delta-rs": lambda: by_delta_rs(path, problems), "duckdb": lambda: by_duckdb(f"delta_scan('{path}')", problems)},
        "delta rows": {"delta-rs": lambda: by_delta_rs(path), "duckdb": lambda: by_duckdb(f"delta_scan('{path}')")},
        "expected rows": {"expected": lambda: expected(path)},
    }
    for name, read in readers[command].items():
        try:
            found[name] = read()
        except Exception as e:
            errors.append(f"{type(e).__name__}: {e}"[:600])
    return {**found, "problems": problems, **({"error": "; ".join(errors)} if errors else {})}


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        asked = json.load(file)
    if len(asked) < 8:
        print(json.dumps([seen(*table) for table in asked]))
    else:
        with concurrent.futures.ProcessPoolExecutor() as pool:
            print(json.dumps(list(pool.map(seen, *zip(*asked)))))
