"""Reads a table the way an engine does: plan from the server, rows from the object store, deletes applied.

Two readers that share no code past the plan: pyarrow, mapping columns by field id here, and DuckDB, mapping them itself.
Each gives rows as dicts, with the row id under `_row_id`.
"""

from __future__ import annotations

import decimal
import math
import struct
from datetime import timezone

import pyarrow as pa
import pyarrow.parquet as pq
from pyhoglake.types import coltype_to_arrow

import puffin

ROW_ID = "_row_id"
DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMPTZ",
    "string": "VARCHAR",
    # Written without Parquet's UUID annotation, hence 16 bytes for any reader.
    "uuid": "BLOB",
    "binary": "BLOB",
}


def key(path: str) -> str:
    """The bucket and key of an `s3://` URI."""
    return path.removeprefix("s3://")


def deleted_positions(entry, filesystem) -> set[int]:
    if entry.delete_file is None:
        return set()
    with filesystem.open_input_stream(key(entry.delete_file.path)) as stream:
        found = puffin.positions(stream.read())
    assert len(found) == entry.delete_file.delete_count
    return found


def with_arrow(table, filesystem, **when) -> list[dict]:
    """The live rows of a pyhoglake table, read by pyarrow."""
    columns = table.info(**when).columns
    rows = []
    for entry in table.scan_plan(**when):
        gone = deleted_positions(entry, filesystem)
        read = pq.read_table(key(entry.data_file.path), filesystem=filesystem)
        assert read.num_rows == entry.data_file.record_count
        by_id = {int(f.metadata[b"PARQUET:field_id"]): read.column(f.name) for f in read.schema}
        made = {}
        for column in columns:
            target = coltype_to_arrow(column.type, column.type_params)
            found = by_id.get(column.field_id)
            values = pa.nulls(read.num_rows, target) if found is None else found.cast(target)
            made[column.name] = values.to_pylist()
        for position in range(read.num_rows):
            if position not in gone:
                row = {name: values[position] for name, values in made.items()}
                row[ROW_ID] = entry.data_file.row_id_start + position
                rows.append(row)
    return rows


def with_duckdb(table, filesystem, duck, **when) -> list[dict]:
    """The live rows of a pyhoglake table, read by DuckDB."""
    columns = table.info(**when).columns
    plan = table.scan_plan(**when)
    if not plan:
        return []

    def duckdb_type(column) -> str:
        if column.type == "decimal":
            return f"DECIMAL({column.type_params['precision']},{column.type_params['scale']})"
        return DUCKDB_TYPES[column.type]

    by_id = ", ".join(
        f"""{c.field_id}: {{name: '{c.name}', type: '{duckdb_type(c)}', default_value: NULL}}""" for c in columns
    )
    starts = pa.table(
        {
            "path": [entry.data_file.path for entry in plan],
            "start": pa.array([entry.data_file.row_id_start for entry in plan], pa.int64()),
        }
    )
    gone = [(e.data_file.path, p) for e in plan for p in deleted_positions(e, filesystem)]
    vectors = pa.table(
        {"path": pa.array([g[0] for g in gone], pa.string()), "pos": pa.array([g[1] for g in gone], pa.int64())}
    )
    duck.register("starts", starts)
    duck.register("vectors", vectors)
    # A file registered twice stands twice in the plan, so read each path once and let the join repeat it.
    paths = ", ".join(f"'{p}'" for p in sorted({e.data_file.path for e in plan}))
    names = ", ".join(f'data."{c.name}"' for c in columns)
    result = duck.execute(
        f"""
        SELECT {names}, starts.start + data.file_row_number AS "{ROW_ID}"
        FROM read_parquet([{paths}], schema = MAP {{{by_id}}}, file_row_number = true, filename = true) AS data
        JOIN starts ON starts.path = data.filename
        WHERE NOT EXISTS (
            SELECT 1 FROM vectors WHERE vectors.path = data.filename AND vectors.pos = data.file_row_number
        )
        """
    )
    return result.to_arrow_table().to_pylist()


def comparable(value):
    """A form in which equal values of either reader are equal, NaN and signed zero included."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else struct.pack(">d", value)
    if isinstance(value, decimal.Decimal):
        return ("decimal", int(value.scaleb(30, decimal.Context(prec=100))))
    if hasattr(value, "tzinfo") and value.tzinfo is not None:
        return value.astimezone(timezone.utc).isoformat()
    return value


def multiset(rows: list[dict], *, row_ids: bool = True) -> list:
    """Rows in an order of their own, for comparing."""
    return sorted(
        (tuple((k, comparable(v)) for k, v in sorted(row.items()) if row_ids or k != ROW_ID) for row in rows),
        key=repr,
    )


def read(table, filesystem, duck, **when) -> list[dict]:
    """Reads with both engines, asserts that they agree, and returns the rows by row id."""
    arrow, duckdb = with_arrow(table, filesystem, **when), with_duckdb(table, filesystem, duck, **when)
    assert multiset(arrow) == multiset(duckdb)
    return sorted(arrow, key=lambda row: row[ROW_ID])
