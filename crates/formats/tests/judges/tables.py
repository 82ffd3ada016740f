"""Reads tables with other projects' engines and prints what they see.

tables.py FILE      a file with a JSON list of ["iceberg", METADATA_JSON] and ["delta", TABLE]; prints for each
                    {"pyiceberg": [...], "duckdb": [...], "problems": [...]}, {"delta-rs": [...], "duckdb": [...],
                    "problems": [...]}, or {"error": ...}

Each list holds the table's rows as sorted JSON texts. Problems are what only one reader would not show: a count from
metadata that differs from the rows, or a predicate at a column's minimum or maximum that loses rows (wrong statistics
show there).
"""
import datetime
import decimal
import json
import math
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
    if isinstance(value, (datetime.date, datetime.time, uuid.UUID)):
        return str(value)
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


def by_duckdb(scan, problems):
    connection = duck()
    table = connection.execute(f"select * from {scan}").to_arrow_table()
    count = connection.execute(f"select count(*) from {scan}").fetchone()[0]
    if count != table.num_rows:
        problems.append(f"duckdb counts {count} rows from metadata and reads {table.num_rows}")
    for name, value, expected in extremes(table):
        quoted = '"' + name.replace('"', '""') + '"'
        found = connection.execute(f"select count(*) from {scan} where {quoted} = ?", [value]).fetchone()[0]
        if found != expected:
            problems.append(f"duckdb finds {found} rows with {name} = {value!r} instead of {expected}")
    return table


def iceberg(path):
    from pyiceberg.expressions import EqualTo
    from pyiceberg.table import StaticTable

    problems = []
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
    ducks = by_duckdb(f"iceberg_scan('{path}')", problems)
    return {"pyiceberg": rows(read), "duckdb": rows(ducks), "problems": problems}


def delta(path):
    from deltalake import DeltaTable, QueryBuilder

    problems = []
    table = DeltaTable(path)
    read = pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all())
    for name, value, expected in extremes(read):
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
    ducks = by_duckdb(f"delta_scan('{path}')", problems)
    return {"delta-rs": rows(read), "duckdb": rows(ducks), "problems": problems}


def seen(command, path):
    try:
        return {"iceberg": iceberg, "delta": delta}[command](path)
    except Exception as e:
        return {"error": f"{type(e).__name__}: {e}"[:600]}


if __name__ == "__main__":
    print(json.dumps([seen(*table) for table in json.load(open(sys.argv[1]))]))
