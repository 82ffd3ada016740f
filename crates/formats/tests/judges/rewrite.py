"""Judges a rewritten Parquet file by its inputs.

rewrite.py make DIR       writes inputs of several vintages with pyarrow and DuckDB
rewrite.py check SPEC     reads inputs and output with pyarrow, and the output with DuckDB, and compares every row in order

SPEC is a JSON file, of one rewriting or a list of them: {"inputs": [{"path", "first_row_id" or null, "deleted": [...], "names": {id: name}}], "columns":
[{"id", "name", "type"}], "sort": [{"id", "descending", "nulls_first"}], "output"}. Prints what was found.
"""
import decimal
import functools
import json
import math
import os
import random
import sys
import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

ROW_ID = 2147483646
NAN, INF = float("nan"), float("inf")


def field(name, dtype, field_id, nullable=True):
    return pa.field(name, dtype, nullable, metadata={"PARQUET:field_id": str(field_id)} if field_id else None)


def vintage(rows, seed, ids=True, narrow=False):
    g = random.Random(seed)

    def integers(low, high):
        return [g.randrange(low, high) for _ in range(rows)]

    def holes(values, share=0.1):
        return [None if g.random() < share else v for v in values]

    def maybe(i):
        return i if ids else None
    doubles = [[NAN, -NAN, INF, -INF, 0.0, -0.0][i % 6] if g.random() < 0.2 else float(i) / 8 for i in integers(-100, 100)]
    words = ["", "a", "ab", "b", "é", "日本", "\U0001f40e", "z" * 40]
    columns = [
        (field("k", pa.string(), maybe(1)), holes([g.choice(words) for _ in range(rows)])),
        (field("n", pa.int32() if narrow else pa.int64(), maybe(2)), holes(integers(-50, 50))),
        (field("x", pa.float32() if narrow else pa.float64(), maybe(3)), holes(doubles)),
        (field("dec", pa.decimal128(9, 2) if narrow else pa.decimal128(20, 2), maybe(4)),
         holes([decimal.Decimal(i) / 100 for i in integers(-10**6, 10**6)])),
        (field("day", pa.date32(), maybe(5)), holes(integers(-1000, 1000))),
        (field("t", pa.time32("ms") if narrow else pa.time64("us"), maybe(6)),
         holes(integers(0, 86_400_000 if narrow else 86_400_000_000))),
        (field("ts", pa.timestamp("ms" if narrow else "us"), maybe(7)), holes(integers(-10**12, 10**12))),
        (field("tz", pa.timestamp("us", "UTC"), maybe(8)), holes(integers(-10**15, 10**15))),
        (field("u", pa.binary(16), maybe(9)), holes([g.randbytes(16) for _ in range(rows)])),
        (field("bin", pa.binary(), maybe(10)), holes([g.randbytes(i) for i in integers(0, 20)])),
        (field("flag", pa.bool_(), maybe(11)), holes([g.random() < 0.5 for _ in range(rows)])),
    ]
    return [f for f, _ in columns], [pa.array(v, f.type) for f, v in columns]


def make(directory):
    def write(name, fields, arrays, **options):
        pq.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)), os.path.join(directory, name), **options)

    fields, arrays = vintage(5000, 1)
    write("plain.parquet", fields, arrays, compression="zstd", row_group_size=1500)
    fields, arrays = vintage(3000, 2, narrow=True)
    # An old vintage: narrower types, columns called otherwise, in another order, one dropped since, some not there yet.
    fields = [f.with_name("old_" + f.name) for f in fields]
    fields.append(field("gone", pa.int64(), 77))
    arrays.append(pa.array(range(3000)))
    order = [11, 3, 0, 1, 2, 4, 5, 6]
    write("old.parquet", [fields[i] for i in order], [arrays[i] for i in order], compression="snappy", store_decimal_as_integer=True)
    fields, arrays = vintage(2500, 3, ids=False)
    write("by-name.parquet", fields, arrays, compression="gzip", data_page_version="2.0")
    fields, arrays = vintage(1000, 4)
    ids = random.Random(4).sample(range(1_000_000, 1_100_000), 1000)
    write("explicit.parquet", fields + [field("_hog_row_id", pa.int64(), ROW_ID, False)], arrays + [pa.array(ids)])
    fields, arrays = vintage(0, 5)
    write("empty.parquet", fields, arrays)
    fields, arrays = vintage(4000, 6, ids=False)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("src", pa.Table.from_arrays(arrays, schema=pa.schema(fields)))
    names = ", ".join(f"{f.name}: {i}" for i, f in enumerate(fields, 1))
    connection.execute("COPY (SELECT * REPLACE (CAST(lower(hex(u)) AS UUID) AS u) FROM src) TO "
                       f"'{os.path.join(directory, 'duckdb.parquet')}' (FORMAT parquet, COMPRESSION zstd, FIELD_IDS {{{names}}})")
    # Mixed ids: a field without an id carries the name of one that has its id under another name.
    write("decoy.parquet", [field("n", pa.int64(), None), field("renamed_n", pa.int64(), 2)],
          [pa.array([-1, -2, -3]), pa.array([1, 2, 3])])
    return sorted(os.listdir(directory))


def plain(value):
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


def integers(array):
    t = array.type
    if pa.types.is_time32(t):
        return [None if v is None else v * 1000 for v in array.cast(pa.int32()).to_pylist()]
    if pa.types.is_timestamp(t):
        assert t.unit in ("ms", "us"), t
        factor = 1000 if t.unit == "ms" else 1
        return [None if v is None else v * factor for v in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_time64(t):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_date32(t):
        return array.cast(pa.int32()).to_pylist()
    return [plain(v) for v in array.to_pylist()]


def read(path, columns, names):
    """Columns by field id, or by name where no field has one, as plain Python values."""
    # INT96 reaches further than nanoseconds do
    table = pq.ParquetFile(path, arrow_extensions_enabled=False, coerce_int96_timestamp_unit="us").read()
    ids = {int(f.metadata[b"PARQUET:field_id"]): i for i, f in enumerate(table.schema) if f.metadata and b"PARQUET:field_id" in f.metadata}
    out = []
    for column in columns:
        if ids:
            index = ids.get(column["id"], -1)
        else:
            index = table.schema.get_field_index(names.get(str(column["id"]), column["name"]))
        out.append([None] * table.num_rows if index < 0 else integers(table.column(index).combine_chunks()))
    return table, ids, out


def compare(sort, index, a, b):
    for s in sort:
        i = index[s["id"]]
        x, y = a[i], b[i]
        if x is None or y is None:
            if x is None and y is None:
                continue
            return -1 if (x is None) == s["nulls_first"] else 1
        order = order_of(x, y)
        if order:
            return -order if s["descending"] else order
    return (a[-1] > b[-1]) - (a[-1] < b[-1])


def order_of(x, y):
    if isinstance(x, float):
        if x != x or y != y:
            return (x != x) - (y != y)
        if x == 0 == y:
            x, y = math.copysign(1, x), math.copysign(1, y)
    if isinstance(x, str):
        x, y = x.encode(), y.encode()
    return (x > y) - (x < y)


def same(a, b):
    return a == b or (isinstance(a, float) and isinstance(b, float) and a != a and b != b)


def check(spec):
    columns = spec["columns"]
    expected = []
    for item in spec["inputs"]:
        _, ids, values = read(item["path"], columns, item.get("names", {}))
        count = len(values[0]) if values else 0
        if item["first_row_id"] is None:
            row_ids = pq.ParquetFile(item["path"]).read(["_hog_row_id"]).column(0).to_pylist()
        else:
            row_ids = range(item["first_row_id"], item["first_row_id"] + count)
        deleted = set(item["deleted"])
        expected.extend(row for i, row in enumerate(zip(*values, row_ids)) if i not in deleted)
    index = {c["id"]: i for i, c in enumerate(columns)}
    expected.sort(key=functools.cmp_to_key(lambda a, b: compare(spec["sort"], index, a, b)))
    table, ids, values = read(spec["output"], columns + [{"id": ROW_ID, "name": "_hog_row_id"}], {})
    assert list(ids) == [c["id"] for c in columns] + [ROW_ID], ids
    assert table.schema.names == [c["name"] for c in columns] + ["_hog_row_id"], table.schema
    found = list(zip(*values))
    assert len(found) == len(expected), (len(found), len(expected))
    for i, (a, b) in enumerate(zip(found, expected)):
        assert all(same(x, y) for x, y in zip(a, b)), (i, a, b)
    # DuckDB reads the same; dates and times as the integers that the others are compared as.
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    raw = {"date": "{} - DATE '1970-01-01'", "time": "epoch_us({})", "timestamp": "epoch_us({})", "timestamptz": "epoch_us({})"}
    selected = ", ".join(raw.get(c["type"], "{}").format('"' + c["name"].replace('"', '""') + '"') for c in columns)
    by_duckdb = connection.execute(f"SELECT {selected}, _hog_row_id FROM read_parquet('{spec['output']}')").fetchall()
    assert len(by_duckdb) == len(expected)
    for i, (a, b) in enumerate(zip(by_duckdb, expected)):
        assert all(same(plain(x), y) for x, y in zip(a, b)), (i, a, b)
    metadata = pq.ParquetFile(spec["output"]).metadata
    chunks = [metadata.row_group(g).column(c) for g in range(metadata.num_row_groups) for c in range(metadata.num_columns)]
    assert all(c.compression == "ZSTD" and c.has_offset_index and c.has_column_index for c in chunks)
    row_id = metadata.schema.column(metadata.num_columns - 1)
    assert row_id.max_definition_level == 0 and row_id.physical_type == "INT64"
    return {"rows": len(found), "row_groups": metadata.num_row_groups, "min_row_id": min((r[-1] for r in found), default=None),
            "types": [str(metadata.schema.column(i).logical_type) for i in range(metadata.num_columns)]}


if __name__ == "__main__":
    command, argument = sys.argv[1:3]
    if command == "make":
        print(json.dumps(make(argument)))
    else:
        spec = json.load(open(argument))
        print(json.dumps([check(one) for one in spec] if isinstance(spec, list) else check(spec)))
