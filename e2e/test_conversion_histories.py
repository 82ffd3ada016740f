"""What other writers do to a table, followed by `hoglake sync`: after each of their commits every target is brought up to
date, and engines that read it see the rows that the source's own engine sees in the source."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from formats import Store, multiset, sample
from server import BINARY


def sync(source: str, path: str, target: str, into: str) -> dict:
    """One run, as a process of its own."""
    command = [BINARY, "sync", "--source", source, "--path", path, "--target", target, "--target-path", into, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout)
    assert done.returncode == 0, f"{report} {done.stderr}"
    return report


@dataclass
class Followed:
    """The targets of one table."""

    store: Store
    source: str
    path: str
    # Where each target is written.
    places: dict[str, str]
    history: list[list] = field(default_factory=list)

    def follow(self, rows: pa.Table, plan: str = "incremental", commits: int | None = 1, path: str | None = None) -> None:
        """Brings all targets to the head of the source, which shows these rows."""
        self.path = path or self.path
        expected = multiset(rows.to_pylist())
        self.history.append(expected)
        for target, place in self.places.items():
            report = sync(self.source, self.path, target, place)
            assert report["plan"] == plan, report
            assert commits is None or len(report["commits"]) == commits, report
            assert sync(self.source, self.path, target, place)["plan"] == "no-change"
            for engine, seen in self.read(target, report["metadata-path"], place).items():
                assert multiset(seen) == expected, f"{target} read by {engine}, commit {len(self.history)}"

    def read(self, target: str, metadata_path: str, place: str) -> dict[str, list[dict]]:
        if target == "HUDI":
            # No engine here reads files that Hudi has not written; Spark does in `./x verify-spark`. Here they are read by way
            # of a third format.
            metadata_path = sync("HUDI", place, "ICEBERG", f"{place}-again")["metadata-path"]
            target = "ICEBERG"
        return self.store.read(target, metadata_path)


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(str(tmp_path))


def test_commits_of_delta_rs_are_followed(store):
    path = store.write_delta("t", sample(0, 40), partition_by=["region"])
    followed = Followed(store, "DELTA", path, {"ICEBERG": path, "HUDI": path})

    def table() -> DeltaTable:
        return store.delta(path)

    def rows() -> pa.Table:
        return table().to_pyarrow_table()

    followed.follow(rows(), plan="full")
    # A target that lags: all that follows is replayed at once in the end.
    late = f"{store.prefix}/late"
    sync("DELTA", path, "ICEBERG", late)

    for start in (40, 44, 48):
        store.write_delta("t", sample(start, start + 4), mode="append")
        followed.follow(rows())
    table().delete("id < 10")
    followed.follow(rows())
    table().update(updates={"price": "price + 0.25"}, predicate="id = 21")
    followed.follow(rows())
    changes = pa.table({"id": [22, 900], "region": ["日本", "eu"], "price": [2.0, 3.0]})
    merge = table().merge(changes, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    followed.follow(rows())
    # A partition dropped, one replaced, and files made one.
    table().delete("region = 'a b/c%'")
    followed.follow(rows())
    eu = sample(400, 440).filter(pa.compute.equal(sample(400, 440)["region"], "eu"))
    store.write_delta("t", eu, mode="overwrite", predicate="region = 'eu'")
    followed.follow(rows())
    before = multiset(rows().to_pylist())
    assert table().optimize.compact()["numFilesRemoved"] > 1
    followed.follow(rows())
    assert followed.history[-1] == before
    # All of it replaced, and then the source goes back: over the overwrite, over the compaction, and forth again.
    store.write_delta("t", sample(500, 504), mode="overwrite")
    followed.follow(rows())
    version = table().version()
    for back in (version - 1, 2, version):
        table().restore(back)
        followed.follow(rows())
        assert followed.history[-1] == followed.history[back], f"restored to {back}"
    store.write_delta("t", sample(504, 508), mode="append")
    followed.follow(rows())

    report = sync("DELTA", path, "ICEBERG", late)
    assert (report["plan"], len(report["commits"])) == ("incremental", len(followed.history) - 1)
    replayed = StaticTable.from_metadata(report["metadata-path"], store.iceberg_properties)
    snapshots = sorted(replayed.snapshots(), key=lambda snapshot: snapshot.sequence_number)
    assert len(snapshots) == len(followed.history)
    for number, (snapshot, expected) in enumerate(zip(snapshots, followed.history)):
        seen = replayed.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        assert multiset(seen) == expected, f"version {number}"


def plain(start: int, stop: int) -> pa.Table:
    """Rows whose partition values stand in the folders of all engines alike."""
    table = sample(start, stop)
    regions = pa.array([["eu", "us", "ap"][i % 3] for i in range(start, stop)], pa.string())
    return table.set_column(1, "region", regions)


def test_commits_of_pyiceberg_are_followed(store, tmp_path):
    catalog = SqlCatalog(
        "made", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}", **store.iceberg_properties
    )
    catalog.create_namespace("ns")
    path = store.at("t")
    by_region = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region"))
    columns = [("id", LongType()), ("region", StringType()), ("price", DoubleType())]
    schema = Schema(*(NestedField(n, name, of, required=False) for n, (name, of) in enumerate(columns, 1)))
    table = catalog.create_table("ns.t", schema, location=f"file://{path}", partition_spec=by_region)
    table.append(plain(0, 30))
    followed = Followed(store, "ICEBERG", path, {"DELTA": path, "HUDI": f"{path}/data"})
    # A target that lags, in the folder above: delta-rs reads no files by absolute paths.
    late = store.prefix

    def follow(plan: str = "incremental") -> None:
        """What PyIceberg calls one change may be a snapshot that deletes and one that adds."""
        snapshots = {snapshot.snapshot_id for snapshot in table.snapshots()}
        commits = len(snapshots - known) if plan == "incremental" else 1
        known.update(snapshots)
        followed.follow(table.scan().to_arrow(), plan, commits, table.metadata_location)

    known: set[int] = set()
    follow("full")
    sync("ICEBERG", followed.path, "DELTA", late)
    first = table.current_snapshot().snapshot_id

    for start in (30, 33):
        table.append(plain(start, start + 3))
        follow()
    table.delete("id < 7")
    follow()
    kept = table.current_snapshot().snapshot_id
    table.delete("region == 'us'")
    follow()
    table.dynamic_partition_overwrite(plain(100, 130).filter(pa.compute.equal(plain(100, 130)["region"], "eu")))
    follow()
    # Files made one, which changes no rows.
    files = len(table.inspect.files())
    table.overwrite(table.scan().to_arrow())
    assert len(table.inspect.files()) < files
    follow()
    assert followed.history[-1] == followed.history[-2]
    table.overwrite(plain(200, 204))
    follow()
    lost = table.current_snapshot().snapshot_id
    before = followed.history[-1]
    # All that was replayed above in one go, version by version.
    report = sync("ICEBERG", followed.path, "DELTA", late)
    assert (report["plan"], len(report["commits"])) == ("incremental", len(known) - 1)
    line = [snapshot.snapshot_id for snapshot in sorted(table.snapshots(), key=lambda s: s.sequence_number)]
    assert line[0] == first
    for version, snapshot in enumerate(line):
        seen = DeltaTable(late, version=version).to_pyarrow_table().to_pylist()
        assert multiset(seen) == multiset(table.scan(snapshot_id=snapshot).to_arrow().to_pylist()), f"version {version}"

    # The source goes back, and on from there; then to where it was before.
    table.manage_snapshots().rollback_to_snapshot(kept).commit()
    follow("full")
    assert followed.history[-1] == followed.history[3]
    table.append(plain(300, 303))
    follow()
    table.manage_snapshots().set_current_snapshot(snapshot_id=lost).commit()
    follow("full")
    assert followed.history[-1] == before
    table.append(plain(303, 306))
    follow()
    # History that the target has seen may go.
    table.maintenance.expire_snapshots().by_id(kept).commit()
    sync("ICEBERG", table.metadata_location, "DELTA", path)
    table.append(plain(306, 309))
    follow()
