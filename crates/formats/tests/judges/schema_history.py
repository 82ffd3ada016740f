"""Makes Iceberg tables with a history of schemas, with PyIceberg.

schema_history.py DIR   prints {NAME: {"path": TABLE, "versions": [METADATA_FILE, ...], "rows": [...]}}: a version after
                        each step, and the rows of the last as tables.py prints them
"""
import decimal
import json
import sys
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (DecimalType, DoubleType, FloatType, IntegerType, LongType, NestedField, StringType,
                             StructType)

from tables import rows

base = Path(sys.argv[1])
catalog = InMemoryCatalog("history", warehouse=f"file://{base}")
catalog.create_namespace("n")
found = {}


class History:
    def __init__(self, name, schema, **options):
        self.table = catalog.create_table(f"n.{name}", schema, location=f"file://{base}/{name}", **options)
        self.name, self.versions = name, []

    def append(self, *values):
        self.table.append(pa.Table.from_pylist(list(values), self.table.schema().as_arrow()))
        self.note()
        return self

    def evolve(self, *changes):
        for change in changes:
            with self.table.update_schema(allow_incompatible_changes=True) as update:
                change(update)
        self.note()
        return self

    def note(self):
        self.versions.append(self.table.metadata_location.rsplit("/", 1)[1])

    def done(self):
        found[self.name] = {"path": f"{base}/{self.name}", "versions": self.versions, "rows": rows(self.table.scan().to_arrow())}


def fields(*columns):
    return Schema(*(NestedField(i + 1, name, ty, required=False) for i, (name, ty) in enumerate(columns)))


plain = fields(("id", LongType()), ("a", StringType()))
(History("grown", plain).append({"id": 1, "a": "x"})
    .evolve(lambda u: u.add_column("b", LongType()), lambda u: u.delete_column("a"))
    .append({"id": 2, "b": 5}).done())
(History("renamed", plain).append({"id": 1, "a": "x"})
    .evolve(lambda u: u.rename_column("a", "b")).append({"id": 2, "b": "y"}).done())
(History("readded", plain).append({"id": 1, "a": "x"})
    .evolve(lambda u: u.delete_column("a"), lambda u: u.add_column("a", StringType())).append({"id": 2, "a": "y"}).done())
(History("readded_in_another_case", plain).append({"id": 1, "a": "x"})
    .evolve(lambda u: u.delete_column("a"), lambda u: u.add_column("A", StringType())).append({"id": 2, "A": "y"}).done())
(History("renamed_inside", Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "s", StructType(NestedField(3, "a", StringType(), required=False)), required=False)))
    .append({"id": 1, "s": {"a": "x"}})
    .evolve(lambda u: u.rename_column(("s", "a"), "b")).append({"id": 2, "s": {"b": "y"}}).done())

numbers = fields(("i", IntegerType()), ("f", FloatType()), ("k", LongType()))
(History("widened", numbers).append({"i": 1, "f": 1.5, "k": 1})
    .evolve(lambda u: u.update_column("i", LongType()), lambda u: u.update_column("f", DoubleType()))
    .append({"i": 2**40, "f": 0.1, "k": 2}).done())
price = fields(("id", LongType()), ("d", DecimalType(5, 2)))
(History("widened_decimal", price).append({"id": 1, "d": decimal.Decimal("1.25")})
    .evolve(lambda u: u.update_column("d", DecimalType(12, 2)))
    .append({"id": 2, "d": decimal.Decimal("1234567890.25")}).done())

keyed = Schema(NestedField(1, "id", LongType(), required=True), identifier_field_ids=[1])
(History("keyed", keyed, sort_order=SortOrder(SortField(1, IdentityTransform()))).append({"id": 1}).done())
print(json.dumps(found))
