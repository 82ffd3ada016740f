"""Makes Parquet files with pyarrow and DuckDB, and tells what is really in a Parquet file.

parquet_truth.py make DIR      writes the files
parquet_truth.py truth DIR     for every *.parquet in DIR, by reading all of its rows with pyarrow: row count, and for each
                               flat column its name, catalog type, field id, nulls, NaNs, smallest and largest value
                               (non-null, not NaN) in Iceberg's single-value form as hex
Files that pyarrow cannot read are reported as null.
"""
import datetime
import decimal
import glob
import json
import os
import struct
import sys
import uuid

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def with_ids(schema, first=1):
    return pa.schema([f.with_metadata({"PARQUET:field_id": str(i)}) for i, f in enumerate(schema, first)])


def all_types():
    tz = datetime.timezone.utc
    rows = 1000
    days = [datetime.date(1969, 12, 1) + datetime.timedelta(days=i) for i in range(rows)]
    times = [datetime.time(0, i % 60, i % 59, i) for i in range(rows)]
    stamps = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000 + i % 1000) + datetime.timedelta(hours=i) for i in range(rows)]

    def holes(values, every):
        return [None if i % every == 0 else v for i, v in enumerate(values)]

    return pa.table({
        "b": pa.array(holes([i % 2 == 0 for i in range(rows)], 3)),
        "i": pa.array(holes([i * 7919 - 3_000_000 for i in range(rows)], 4), pa.int32()),
        "l": pa.array([(i * 7919 - 3_000_000) * 10**12 for i in range(rows)], pa.int64()),
        "f": pa.array(holes([(i - 500) / 7 for i in range(rows)], 5), pa.float32()),
        "d": pa.array(holes([(i - 500) * 1e300 for i in range(rows)], 6), pa.float64()),
        "dec": pa.array(holes([decimal.Decimal(i * 31 - 15_000) / 100 for i in range(rows)], 7), pa.decimal128(20, 2)),
        "day": pa.array(holes(days, 8), pa.date32()),
        "t": pa.array(times, pa.time64("us")),
        "ts": pa.array(holes(stamps, 9), pa.timestamp("us")),
        "tz": pa.array([s.replace(tzinfo=tz) for s in stamps], pa.timestamp("us", "UTC")),
        "s": pa.array(holes([chr(0x20 + i * 5 % 0x500) * (i % 7) for i in range(rows)], 10)),
        "u": pa.array([uuid.UUID(int=(i * 2**120 + i) % 2**128).bytes for i in range(rows)], pa.binary(16)),
        "bin": pa.array([bytes([i % 256, 255 - i % 256]) for i in range(rows)], pa.binary()),
    })


def make(directory):
    def path(name):
        return os.path.join(directory, name + ".parquet")

    table = all_types()
    identified = table.cast(with_ids(table.schema))
    pq.write_table(identified, path("pyarrow-ids"), row_group_size=300)
    pq.write_table(table, path("pyarrow-no-ids"), row_group_size=300, data_page_version="2.0", compression="zstd")
    pq.write_table(identified, path("pyarrow-decimal-integers"), store_decimal_as_integer=True)
    pq.write_table(identified, path("pyarrow-no-statistics"), write_statistics=False)
    pq.write_table(identified, path("pyarrow-version-1"), version="1.0", use_dictionary=False)
    pq.write_table(identified, path("pyarrow-int96"), use_deprecated_int96_timestamps=True)
    pq.write_table(identified.slice(0, 0), path("pyarrow-empty"))
    nan, inf = float("nan"), float("inf")
    pq.write_table(pa.table({
        "nan": [nan, 1.0, -1.0, None], "only_nan": pa.array([nan, nan, None, nan], pa.float32()),
        "zero": [0.0, -0.0, 0.0, None], "minus_zero": pa.array([-0.0, None, -0.0, -0.0], pa.float32()),
        "inf": [inf, -inf, 0.0, 1.0], "none": pa.array([None] * 4, pa.int64())}), path("pyarrow-floats"), row_group_size=2)
    pq.write_table(pa.table({
        "ms": pa.array([-1, 0, 1_700_000_000_123], pa.timestamp("ms")),
        "ns": pa.array([-1, 1, 1_700_000_000_123_456_789], pa.timestamp("ns")),
        "time_ms": pa.array([0, 1, 86_399_999], pa.time32("ms")), "time_ns": pa.array([0, 1, 86_399_999_999_999], pa.time64("ns")),
        "i8": pa.array([-128, 0, 127], pa.int8()), "u8": pa.array([0, 128, 255], pa.uint8()),
        "u32": pa.array([0, 2**31, 2**32 - 1], pa.uint32()), "u64": pa.array([0, 2**63, 2**64 - 1], pa.uint64()),
        "small_dec": pa.array([decimal.Decimal("-9.99"), None, decimal.Decimal("0.01")], pa.decimal128(3, 2)),
        "mid_dec": pa.array([decimal.Decimal("-1.5"), None, decimal.Decimal("123456789012345.5")], pa.decimal128(17, 1)),
        "wide_dec": pa.array([decimal.Decimal(-(10**37)), decimal.Decimal(10**37), None], pa.decimal128(38, 0)),
    }), path("pyarrow-units"), store_decimal_as_integer=True)
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("src", table)
    # DuckDB has no zone-less spelling of binary(16); the UUID column is made from its bytes.
    columns = "* REPLACE (CAST(lower(hex(u)) AS UUID) AS u)"
    ids = ", ".join(f"{c}: {i}" for i, c in enumerate(table.column_names, 1))
    connection.execute(f"COPY (SELECT {columns} FROM src) TO '{path('duckdb-ids')}' (FORMAT parquet, ROW_GROUP_SIZE 2048, FIELD_IDS {{{ids}}})")
    connection.execute(f"COPY (SELECT {columns} FROM src) TO '{path('duckdb-no-ids')}' (FORMAT parquet, COMPRESSION zstd, PARQUET_VERSION v2)")
    connection.execute("COPY (SELECT CASE WHEN i % 3 = 0 THEN 'NaN'::DOUBLE ELSE i END AS d, i::INTEGER AS i FROM range(100) t(i)) "
                       f"TO '{path('duckdb-nan')}' (FORMAT parquet)")
    return sorted(os.listdir(directory))


def catalog_type(field):
    t = field.type
    if pa.types.is_uint64(t):
        return None
    if pa.types.is_boolean(t):
        return "boolean"
    if pa.types.is_int8(t) or pa.types.is_int16(t) or pa.types.is_int32(t):
        return "int"
    if pa.types.is_integer(t):
        return "long"
    if pa.types.is_float32(t):
        return "float"
    if pa.types.is_float64(t):
        return "double"
    if pa.types.is_decimal128(t):
        return f"decimal({t.precision},{t.scale})"
    if pa.types.is_date(t):
        return "date"
    if pa.types.is_time(t):
        return "time"
    if pa.types.is_timestamp(t):
        return "timestamptz" if t.tz else "timestamp"
    if pa.types.is_string(t) or pa.types.is_large_string(t):
        return "string"
    if pa.types.is_fixed_size_binary(t) and t.byte_width == 16:
        return "uuid"
    if isinstance(t, pa.BaseExtensionType) and t.extension_name == "arrow.uuid":
        return "uuid"
    if pa.types.is_binary(t) or pa.types.is_fixed_size_binary(t) or pa.types.is_large_binary(t):
        return "binary"
    return None


def single_value(kind, value, column_type):
    if kind == "boolean":
        return struct.pack("<B", value)
    if kind in ("int", "date"):
        return struct.pack("<i", value)
    if kind in ("long", "time", "timestamp", "timestamptz"):
        return struct.pack("<q", value)
    if kind == "float":
        return struct.pack("<f", value)
    if kind == "double":
        return struct.pack("<d", value)
    if kind.startswith("decimal"):
        unscaled = int(value.scaleb(column_type.scale, decimal.Context(prec=60)))
        length = 1
        while not -(1 << (8 * length - 1)) <= unscaled < 1 << (8 * length - 1):
            length += 1
        return unscaled.to_bytes(length, "big", signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)


def integers(kind, array):
    """Dates, times and timestamps as the integers of the single-value form, or None when they have no exact one."""
    t = array.type
    if kind == "date":
        return array.cast(pa.date32()).cast(pa.int32()).drop_null().to_pylist()
    width = pa.int32() if pa.types.is_time32(t) else pa.int64()
    raw = array.cast(width).drop_null().to_pylist()
    if t.unit == "ns":
        return None if any(v % 1000 for v in raw) else [v // 1000 for v in raw]
    return [v * MICROS[t.unit] for v in raw]


def truth(path):
    try:
        file = pq.ParquetFile(path, arrow_extensions_enabled=False)
        table = file.read()
    except Exception as error:
        return {"error": str(error)}
    columns = []
    for index, field in enumerate(table.schema):
        kind = catalog_type(field)
        if kind is None:
            continue
        array = table.column(index)
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.cast(array.type.storage_type)
        nans = None
        if kind in ("float", "double"):
            solid = [v for v in array.drop_null().to_pylist() if v == v]
            nans = len(array) - array.null_count - len(solid)
        elif kind in ("date", "time", "timestamp", "timestamptz"):
            solid = integers(kind, array)
        else:
            solid = array.drop_null().to_pylist()
        key = {"float": lambda v: (v, struct.pack(">d", v)[0] < 128), "double": lambda v: (v, struct.pack(">d", v)[0] < 128),
               "string": str.encode}.get(kind)
        bounds = None
        if solid:
            bounds = [single_value(kind, pick(solid, key=key), field.type).hex() for pick in (min, max)]
        field_id = (field.metadata or {}).get(b"PARQUET:field_id")
        columns.append({"name": field.name, "type": kind, "id": int(field_id) if field_id else None, "nulls": array.null_count,
                        "nans": nans, "inexact": solid is None, "bounds": bounds})
    return {"rows": table.num_rows, "columns": columns}


if __name__ == "__main__":
    command, directory = sys.argv[1:3]
    if command == "make":
        print(json.dumps(make(directory)))
    else:
        print(json.dumps({os.path.basename(p): truth(p) for p in sorted(glob.glob(os.path.join(directory, "*.parquet")))}))
