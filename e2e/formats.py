"""Tables of other engines on the lake's object store or on disk: made by delta-rs and PyIceberg, read by those and DuckDB."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

import duckdb
import duckdb_extension_avro
import duckdb_extension_delta
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable

KEY, SECRET, REGION = "hoglake", "hoglake123", "us-east-1"


@dataclass
class Store:
    """Where tables lie: a prefix, and how engines reach it."""

    prefix: str
    endpoint: str | None = None

    def at(self, name: str) -> str:
        return f"{self.prefix.rstrip('/')}/{name}"

    def uri(self, location: str) -> str:
        """How answers spell a location."""
        return location if "://" in location else f"file://{location}"

    @property
    def delta_options(self) -> dict[str, str] | None:
        if self.endpoint is None:
            return None
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    @property
    def iceberg_properties(self) -> dict[str, str]:
        if self.endpoint is None:
            return {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
        return {
            "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO",
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": REGION,
        }

    def duckdb(self) -> duckdb.DuckDBPyConnection:
        made = duckdb.connect()
        for package in (duckdb_extension_httpfs, duckdb_extension_avro, duckdb_extension_iceberg, duckdb_extension_delta):
            name = package.__name__.removeprefix("duckdb_extension_")
            folder = pathlib.Path(package.__file__).parent
            (extension,) = folder.rglob(f"v{duckdb.__version__}/{name}.duckdb_extension")
            made.execute(f"LOAD '{extension}'")
        if self.endpoint is not None:
            host = self.endpoint.removeprefix("http://")
            made.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{KEY}', SECRET '{SECRET}', REGION '{REGION}', ENDPOINT '{host}', "
                "URL_STYLE 'path', USE_SSL false)"
            )
        return made

    # --- made by others

    def write_delta(self, name: str, rows: pa.Table, **how) -> str:
        write_deltalake(self.at(name), rows, storage_options=self.delta_options, **how)
        return self.at(name)

    def delta(self, location: str) -> DeltaTable:
        return DeltaTable(location.removesuffix("/").removesuffix("/_delta_log"), storage_options=self.delta_options)

    def write_iceberg(self, name: str, rows: pa.Table, folder: pathlib.Path):
        """A table of a catalog of its own: its metadata files have names that only the catalog hands out."""
        warehouse = self.prefix if self.endpoint else f"file://{self.prefix}"
        catalog = SqlCatalog(
            "made", uri=f"sqlite:///{folder}/{name}.db", warehouse=warehouse, **self.iceberg_properties
        )
        catalog.create_namespace_if_not_exists("ns")
        table = catalog.create_table(f"ns.{name}", rows.schema, location=f"{warehouse.rstrip('/')}/{name}")
        table.append(rows)
        return table

    # --- read by others

    def read(self, format: str, metadata_path: str) -> dict[str, list[dict]]:
        """The rows of a table, by each engine that reads the format from what an answer names."""
        duck = self.duckdb()
        if format == "ICEBERG":
            static = StaticTable.from_metadata(metadata_path, self.iceberg_properties)
            return {
                "pyiceberg": static.scan().to_arrow().to_pylist(),
                "duckdb": duck.sql(f"SELECT * FROM iceberg_scan('{metadata_path}')").to_arrow_table().to_pylist(),
            }
        assert format == "DELTA", format
        location = metadata_path.removesuffix("/_delta_log")
        return {
            "delta-rs": self.delta(location).to_pyarrow_table().to_pylist(),
            "duckdb": duck.sql(f"SELECT * FROM delta_scan('{location}')").to_arrow_table().to_pylist(),
        }


def sample(start: int, stop: int) -> pa.Table:
    """Rows with a partition column that needs encoding, and values at the edges of their types."""
    regions = ["eu", "a b/c%", "日本", None]
    return pa.table(
        {
            "id": pa.array(range(start, stop), pa.int64()),
            "region": pa.array([regions[i % 4] for i in range(start, stop)], pa.string()),
            "price": pa.array([i * 1.5 if i % 5 else None for i in range(start, stop)], pa.float64()),
        }
    )


def multiset(rows: list[dict]) -> list:
    return sorted(repr(sorted(row.items())) for row in rows)
