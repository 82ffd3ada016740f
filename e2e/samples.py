"""Rows with every column type, at the edges where types go wrong."""

from __future__ import annotations

import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("c_boolean", pa.bool_()),
        pa.field("c_int", pa.int32()),
        pa.field("c_long", pa.int64()),
        pa.field("c_float", pa.float32()),
        pa.field("c_double", pa.float64()),
        pa.field("c_decimal", pa.decimal128(18, 4)),
        pa.field("c_date", pa.date32()),
        pa.field("c_time", pa.time64("us")),
        pa.field("c_timestamp", pa.timestamp("us")),
        pa.field("c_timestamptz", pa.timestamp("us", tz="UTC")),
        pa.field("c_string", pa.string()),
        pa.field("c_uuid", pa.binary(16)),
        pa.field("c_binary", pa.binary()),
    ]
)
UTC = timezone.utc
ROWS = [
    (
        True,
        2**31 - 1,
        2**63 - 1,
        1.5,
        1.7976931348623157e308,
        Decimal("99999999999999.9999"),
        date(9999, 12, 31),
        time(23, 59, 59, 999999),
        datetime(2026, 1, 2, 3, 4, 5, 678901),
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        "naïve 🦔 \x00 \n",
        uuid.UUID(int=2**128 - 1).bytes,
        bytes(range(256)),
    ),
    (
        False,
        -(2**31),
        -(2**63),
        float("-inf"),
        -0.0,
        Decimal("-99999999999999.9999"),
        date(1, 1, 1),
        time(0, 0, 0),
        datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime(1, 1, 1, 0, 0, 0, 0, UTC),
        "",
        uuid.UUID(int=0).bytes,
        b"",
    ),
    (
        True,
        0,
        0,
        float("nan"),
        float("nan"),
        Decimal("0.0000"),
        date(1970, 1, 1),
        time(12, 0),
        datetime(1970, 1, 1),
        datetime(1970, 1, 1, tzinfo=UTC),
        "x" * 5000,
        uuid.UUID("12345678-1234-5678-1234-567812345678").bytes,
        b"\x00",
    ),
    (None,) * 13,
]


def table(rows=ROWS) -> pa.Table:
    return pa.table([pa.array(column, type_.type) for column, type_ in zip(zip(*rows), SCHEMA)], schema=SCHEMA)
