"""Targets that hoglake and Apache XTable carry on in turns: `./x verify-xtable CLASS_PATH`. XTable is on no registry."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from formats import Store, multiset
from server import BINARY

OPENS = ["lang", "lang.invoke", "io", "net", "nio", "time", "util", "util.concurrent", "util.concurrent.atomic"]
JAVA = [
    "java",
    "-Xmx2g",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in OPENS),
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
    "-Duser.timezone=UTC",
    "-Dspark.ui.enabled=false",
    "-Dspark.driver.host=127.0.0.1",
    "-Dspark.driver.bindAddress=127.0.0.1",
    "-cp",
    os.environ["HOGLAKE_XTABLE"],
    "org.apache.xtable.utilities.RunSync",
]


def xtable(source: str, target: str, path: pathlib.Path) -> str:
    """One run of XTable: `full` or `incremental`."""
    config = path.parent / "datasets.yaml"
    datasets = [{"tableBasePath": f"file://{path}", "tableName": path.name}]
    if source == "HUDI":
        datasets[0]["partitionSpec"] = "region:VALUE"
    config.write_text(json.dumps({"sourceFormat": source, "targetFormats": [target], "datasets": datasets}))
    done = subprocess.run([*JAVA, "-d", str(config)], capture_output=True, text=True, timeout=250)
    log = done.stdout + done.stderr
    (path.parent / "xtable.log").write_text(log)
    # It exits with 0 whatever happens.
    failed = done.returncode or re.search(r"Sync failed for|Error running sync|Exception in thread", log)
    assert not failed, "\n".join(line for line in log.splitlines() if re.search("ERROR|Exception|Caused|^\tat org.apache.x", line))[-6000:]
    fell_back = re.search(r"No previous InternalTable sync|Falling back to snapshot sync", log)
    return "full" if fell_back else "incremental"


def hoglake(source: str, target: str, path: pathlib.Path) -> str:
    """One run of hoglake: `full`, `incremental` or `no-change`."""
    more = ["--partition-spec", "region:VALUE"] if source == "HUDI" else []
    command = [BINARY, "sync", "--path", str(path), "--source", source, "--target", target, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    outcome = json.loads(done.stdout)
    print(f"hoglake {source} to {target}: {outcome['plan']}, {outcome['reason']}, {outcome['commits']}")
    return outcome["plan"]


CONVERTERS = {"hoglake": hoglake, "xtable": xtable}


def orders(start: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, stop), pa.int64()),
            "region": pa.array(["eu" if i % 2 else "us" for i in range(start, stop)], pa.string()),
            "price": pa.array([i * 1.5 if i % 5 else None for i in range(start, stop)], pa.float64()),
        }
    )


class Delta:
    """A table of delta-rs."""

    format = "DELTA"

    def __init__(self, path: pathlib.Path):
        self.path = path

    def append(self, rows: pa.Table) -> None:
        write_deltalake(str(self.path), rows, mode="append", partition_by=["region"])

    def delete(self, condition: str) -> None:
        DeltaTable(str(self.path)).delete(condition)

    def replace(self, rows: pa.Table) -> None:
        write_deltalake(str(self.path), rows, mode="overwrite")

    def rows(self) -> list[dict]:
        return DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()


class Iceberg:
    """A table of PyIceberg, with names as a catalog by path wants them: that is what XTable reads without another."""

    format = "ICEBERG"

    def __init__(self, path: pathlib.Path):
        self.path, self.metadata = path, path / "metadata"
        self.metadata.mkdir(parents=True)
        catalog = SqlCatalog("made", uri=f"sqlite:///{path.parent}/catalog.db", warehouse=f"file://{path.parent}")
        catalog.create_namespace("ns")
        schema = Schema(
            NestedField(1, "id", LongType()), NestedField(2, "region", StringType()), NestedField(3, "price", DoubleType())
        )
        self.table = catalog.create_table(
            "ns.orders",
            schema,
            location=f"file://{path}",
            partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region")),
            properties={"write.data.path": f"file://{path}", "write.metadata.path": f"file://{path.parent}/catalog"},
        )
        self.version = 0

    def publish(self) -> None:
        self.version += 1
        newest = pathlib.Path(self.table.metadata_location.removeprefix("file://"))
        (self.metadata / f"v{self.version}.metadata.json").write_bytes(newest.read_bytes())
        (self.metadata / "version-hint.text").write_text(str(self.version))

    def append(self, rows: pa.Table) -> None:
        self.table.append(rows)
        self.publish()

    def delete(self, condition: str) -> None:
        self.table.delete(condition)
        self.publish()

    def replace(self, rows: pa.Table) -> None:
        self.table.overwrite(rows)
        self.publish()

    def rows(self) -> list[dict]:
        return self.table.scan().to_arrow().to_pylist()


def same_rows(origin: Delta | Iceberg, format: str) -> None:
    """What DuckDB and the format's own reader find in the target, and what the origin's writer finds there."""
    if format == "DELTA":
        place = str(origin.path)
    else:
        hint = (origin.path / "metadata/version-hint.text").read_text().strip()
        place = f"{origin.path}/metadata/v{hint}.metadata.json"
    for reader, found in Store(str(origin.path.parent)).read(format, place).items():
        # A Hudi table shows its own columns, too, which are null in files that another has written.
        plain = [{k: v for k, v in row.items() if not k.startswith("_hoodie_")} for row in found]
        assert multiset(plain) == multiset(origin.rows()), reader


def second_hop(origin: str, target: str) -> str | None:
    """No engine of the tests reads Hudi: what XTable and hoglake read there goes to the third format."""
    if target != "HUDI":
        return None
    return "ICEBERG" if origin == "DELTA" else "DELTA"


@pytest.mark.parametrize("first", ["hoglake", "xtable"])
@pytest.mark.parametrize("origin, target", [(Delta, "ICEBERG"), (Iceberg, "DELTA"), (Delta, "HUDI"), (Iceberg, "HUDI")])
def test_in_turns(tmp_path, origin, target, first):
    table = origin(tmp_path / "orders")
    hops = [(table.format, target)]
    if last := second_hop(table.format, target):
        hops.append((target, last))
    turns = [first, "xtable" if first == "hoglake" else "hoglake"]

    def carry_on(expected: str) -> None:
        for number, (source, to) in enumerate(hops):
            # Both hops change hands at each turn, and in each turn both converters are at work.
            who = turns[number % 2]
            assert CONVERTERS[who](source, to, table.path) == expected, (who, source, to)
        same_rows(table, hops[-1][1])
        turns.reverse()

    table.append(orders(0, 20))
    carry_on("full")
    for change in (
        lambda: table.append(orders(20, 30)),
        lambda: table.delete("id < 5"),
        lambda: (table.append(orders(30, 40)), table.delete("id = 33"), table.append(orders(40, 44))),
        lambda: table.replace(orders(100, 110)),
        lambda: table.append(orders(110, 112)),
    ):
        change()
        carry_on("incremental")
    for source, to in hops:
        # Nothing is left to do, but to note what XTable's watermark does not say of the source.
        assert hoglake(source, to, table.path) in ("no-change", "incremental")
        assert xtable(source, to, table.path) == "incremental"
        assert hoglake(source, to, table.path) == "no-change"
    same_rows(table, hops[-1][1])
