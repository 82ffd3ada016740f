"""Makes Iceberg tables with equality deletes: data and delete files by pyarrow, manifests by PyIceberg's writers.

equality.py DIR     prints [{"name", "path", "versions": [{"metadata": FILE, "rows": [...]}, ...]}, ...], one version a
                    snapshot, its rows as tables.py prints them, worked out here by comparing every row with every delete
"""
import json
import sys
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntry, ManifestEntryStatus,
                                ManifestWriterV2, write_manifest_list)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from tables import plain


FILE_PATH = 2147483546


class DeleteManifest(ManifestWriterV2):
    def content(self):
        return ManifestContent.DELETES

    @property
    def _meta(self):
        return {**super()._meta, "content": "deletes"}


class Table:
    """A table in the making, with its rows by data file: (spec, partition, sequence, rows)."""

    def __init__(self, base, name, schema, specs, properties=None):
        self.name, self.path = name, base / name
        (self.path / "metadata").mkdir(parents=True)
        (self.path / "data").mkdir()
        self.schema, self.specs, self.io = schema, specs, PyArrowFileIO()
        self.manifests, self.snapshots, self.versions, self.files, self.deletes = [], [], [], [], []
        self.uuid, self.properties = str(uuid.uuid4()), properties or {}
        self.paths, self.gone = [], set()

    def arrow(self, columns, types=(), ids=True):
        """The Arrow schema of some columns by field id, each with its id if they are to have any."""
        kinds = {"long": pa.int64(), "string": pa.string(), "double": pa.float64()}

        def field(f):
            kind = dict(types).get(f.field_id)
            if kind is None:
                kind = pa.struct([field(m) for m in f.field_type.fields]) if isinstance(f.field_type, StructType) else kinds[str(f.field_type)]
            return pa.field(f.name, kind, metadata={"PARQUET:field_id": str(f.field_id)} if ids else None)

        return pa.schema([field(f) for f in self.schema.fields if f.field_id in columns])

    def write(self, rows, schema):
        path = self.path / "data" / f"{len(self.files) + len(self.deletes):03}-{uuid.uuid4()}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=2)
        return path

    def entry(self, path, content, rows, partition, fields=None, bounds=None):
        return ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=None, sequence_number=None, file_sequence_number=None,
            data_file=DataFile.from_args(
                content=content, file_path=str(path), file_format=FileFormat.PARQUET, partition=Record(*partition),
                record_count=rows, file_size_in_bytes=path.stat().st_size, equality_ids=fields, column_sizes=None,
                value_counts=None, null_value_counts=None, nan_value_counts=None, lower_bounds=bounds, upper_bounds=bounds,
                key_metadata=None, split_offsets=None, sort_order_id=None))

    def commit(self, data=(), equality=(), types=(), absent=(), positions=(), ids=True, anew=False):
        """data: (spec, partition, rows); equality: (spec, partition, field ids, rows); positions: (number of the data file,
        positions in it). Position and equality deletes of a commit that has both, or several position deletes, share a
        manifest. anew: the first data file once more, in place of its first addition."""
        sequence = len(self.snapshots) + 1
        snapshot = 1000 + sequence
        new = []
        if anew:
            spec, partition, _, rows = self.files[0]
            self.files[0] = (spec, partition, sequence, rows)
            self.manifests.pop(0)
            new.append((ManifestWriterV2, spec, self.entry(Path(self.paths[0]), DataFileContent.DATA, len(rows), partition)))
        for spec, partition, rows in data:
            columns = {f.field_id for f in self.schema.fields} - set(absent)
            path = self.write([{k: v for k, v in r.items()} for r in rows], self.arrow(columns, types, ids))
            self.paths.append(str(path))
            self.files.append((spec, partition, sequence, rows))
            new.append((ManifestWriterV2, spec, self.entry(path, DataFileContent.DATA, len(rows), partition)))
        for spec, partition, fields, rows in equality:
            top = {f.field_id for f in self.schema.fields if f.field_id in fields
                   or isinstance(f.field_type, StructType) and {m.field_id for m in f.field_type.fields} & set(fields)}
            path = self.write(rows, self.arrow(top))
            self.deletes.append((spec, partition, sequence, fields, rows))
            new.append((DeleteManifest, spec, self.entry(path, DataFileContent.EQUALITY_DELETES, len(rows), partition, fields)))
        for number, rows in positions:
            (spec, partition, *_), name = self.files[number], self.paths[number]
            ids = {name: {"PARQUET:field_id": str(id)} for name, id in (("file_path", FILE_PATH), ("pos", FILE_PATH - 1))}
            columns = pa.schema([pa.field("file_path", pa.string(), False, ids["file_path"]), pa.field("pos", pa.int64(), False, ids["pos"])])
            path = self.path / "data" / f"{uuid.uuid4()}-deletes.parquet"
            pq.write_table(pa.Table.from_pylist([{"file_path": name, "pos": row} for row in rows], columns), path)
            self.gone |= {(number, row) for row in rows}
            new.append((DeleteManifest, spec, self.entry(path, DataFileContent.POSITION_DELETES, len(rows), partition,
                                                         bounds={FILE_PATH: name.encode()})))
        groups = [[one] for one in new] if not positions else [new]
        for group in groups:
            writer, spec, _ = group[0]
            place = self.path / "metadata" / f"{uuid.uuid4()}-m.avro"
            with writer(self.specs[spec], self.schema, self.io.new_output(str(place)), snapshot, "null") as w:
                for _, _, entry in group:
                    w.add(entry)
            manifest = w.to_manifest_file()
            manifest.sequence_number, manifest.min_sequence_number = sequence, sequence
            self.manifests.append(manifest)
        listing = self.path / "metadata" / f"snap-{snapshot}.avro"
        parent = snapshot - 1 if self.snapshots else None
        with write_manifest_list(2, self.io.new_output(str(listing)), snapshot, parent, sequence, "null") as w:
            w.add_manifests(self.manifests)
        self.snapshots.append({"snapshot-id": snapshot, "sequence-number": sequence, "timestamp-ms": 1_700_000_000_000 + sequence,
                               "manifest-list": str(listing), "schema-id": 0, "summary": {"operation": "overwrite"},
                               **({"parent-snapshot-id": parent} if parent else {})})
        metadata = {
            "format-version": 2, "table-uuid": self.uuid, "location": str(self.path), "last-sequence-number": sequence,
            "last-updated-ms": 1_700_000_000_000 + sequence, "last-column-id": 20, "schemas": [json.loads(self.schema.model_dump_json())],
            "current-schema-id": 0, "partition-specs": [json.loads(s.model_dump_json()) for s in self.specs], "default-spec-id": 0,
            "last-partition-id": 1000, "properties": self.properties, "current-snapshot-id": snapshot, "snapshots": self.snapshots,
            "snapshot-log": [], "metadata-log": [], "sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0,
            "refs": {"main": {"snapshot-id": snapshot, "type": "branch"}}}
        place = self.path / "metadata" / f"v{sequence}.metadata.json"
        place.write_text(json.dumps(metadata))
        (self.path / "metadata" / "version-hint.text").write_text(str(sequence))
        self.versions.append({"metadata": str(place), "rows": self.rows()})

    def value(self, row, field):
        for f in self.schema.fields:
            if f.field_id == field:
                return row.get(f.name)
            if isinstance(f.field_type, StructType):
                for member in f.field_type.fields:
                    if member.field_id == field:
                        return (row.get(f.name) or {}).get(member.name)

    def rows(self):
        live = []
        for number, (spec, partition, sequence, rows) in enumerate(self.files):
            applying = [(fields, deleted) for dspec, dpartition, dsequence, fields, deleted in self.deletes
                        if sequence < dsequence and (not dpartition or (dspec, dpartition) == (spec, partition))]
            for at, row in enumerate(rows):
                gone = (number, at) in self.gone or any(all(self.value(row, f) == self.value(d, f) for f in fields) for fields, deleted in applying for d in deleted)
                if not gone:
                    live.append({f.name: row.get(f.name) for f in self.schema.fields})
        return sorted(json.dumps(plain(r), sort_keys=True) for r in live)


def schema(*fields):
    return Schema(*(NestedField(i, n, t, required=False) for i, n, t in fields), schema_id=0)


NONE, BY_P = PartitionSpec(spec_id=0), PartitionSpec(PartitionField(4, 1000, IdentityTransform(), "p"), spec_id=0)
BASIC = schema((1, "id", LongType()), (2, "name", StringType()), (3, "score", DoubleType()))


def row(id, name=None, score=None, **more):
    return {"id": id, "name": name, "score": score, **more}


def flat(base):
    t = Table(base, "flat", BASIC, [NONE])
    t.commit([(0, (), [row(1, "x", 1.0), row(2, None, 2.0), row(3, "y"), row(1, "z", 1.0), row(None, "n", 0.0)])])
    # A delete does not touch what the same commit adds.
    t.commit([(0, (), [row(1, "new", 5.0), row(4), row(5, None, 2.0)])], [(0, (), [1], [row(1), row(99)])])
    # Null equals null, but a value does not.
    t.commit([], [(0, (), [2, 3], [row(None)])])
    t.commit([], [(0, (), [1], [row(None)]), (0, (), [2], [row(None, "y")])])
    # Two delete files with the same columns, in another order.
    t.commit([], [(0, (), [3, 2], [row(None, None, 2.0)]), (0, (), [2, 3], [row(None, "new", 5.0)])])
    return t


def parted(base):
    fields = schema((1, "id", LongType()), (2, "name", StringType()), (3, "score", DoubleType()), (4, "p", StringType()))
    t = Table(base, "parted", fields, [BY_P, PartitionSpec(spec_id=1)])
    t.commit([(0, (p,), [row(i, f"{p}{i}", p=p) for i in range(4)]) for p in ("a", "b c")] + [(0, (None,), [row(1, "null", p=None)])])
    t.commit([], [(0, ("a",), [1], [row(1)]), (0, ("b c",), [1], [row(2)])])
    # Deletes of an unpartitioned spec apply everywhere.
    t.commit([], [(1, (), [1], [row(3)])])
    t.commit([], [(0, (None,), [1], [row(1)]), (1, (), [4], [row(None, p="a")])])
    return t


def promoted(base):
    t = Table(base, "promoted", BASIC, [NONE])
    t.commit([(0, (), [row(1, "a", 0.5), row(2, "b", 1.5)])], types=[(1, pa.int32()), (3, pa.float32())])
    # A file without the column: its values are null.
    t.commit([(0, (), [{"id": 7, "score": 1.5}, {"id": 8, "score": 2.5}])], absent=[2])
    t.commit([], [(0, (), [1, 3], [row(2, None, 1.5)]), (0, (), [2, 1], [row(8)])])
    return t


def nested(base):
    fields = schema((1, "id", LongType()), (5, "s", StructType(NestedField(6, "x", LongType(), required=False), NestedField(7, "y", StringType(), required=False))))
    t = Table(base, "nested", fields, [NONE])
    t.commit([(0, (), [{"id": 1, "s": {"x": 1, "y": "a"}}, {"id": 2, "s": None}, {"id": 3, "s": {"x": None, "y": "b"}}, {"id": 4, "s": {"x": 4, "y": None}}])])
    t.commit([], [(0, (), [6], [{"s": {"x": 4, "y": None}}])])
    t.commit([], [(0, (), [6, 7], [{"s": {"x": None, "y": "b"}}])])
    return t


def mapped(base):
    """Files without ids, and a nested column that is called as one at the top."""
    mapping = [{"field-id": 1, "names": ["id"]}, {"field-id": 8, "names": ["x"]},
               {"field-id": 5, "names": ["s"], "fields": [{"field-id": 6, "names": ["x"]}, {"field-id": 7, "names": ["y"]}]}]
    s = StructType(NestedField(6, "x", LongType(), required=False), NestedField(7, "y", StringType(), required=False))
    fields = schema((1, "id", LongType()), (8, "x", LongType()), (5, "s", s))
    t = Table(base, "mapped", fields, [NONE], {"schema.name-mapping.default": json.dumps(mapping)})
    t.commit([(0, (), [{"id": i, "x": x, "s": {"x": y, "y": "a"}} for i, x, y in ((1, 4, 1), (2, 9, 4), (3, 7, 8))])], ids=False)
    t.commit([], [(0, (), [6], [{"s": {"x": 4, "y": None}}])])
    t.commit([], [(0, (), [8], [{"x": 7}])])
    return t


def anew(base):
    """Equality deletes do not apply to a file that was added again after them."""
    t = Table(base, "anew", BASIC, [NONE])
    t.commit([(0, (), [row(i, f"a{i}") for i in range(3)])])
    t.commit([], [(0, (), [1], [row(1)])])
    t.commit(anew=True)
    t.commit([], [(0, (), [1], [row(2)])])
    return t


def mixed(base, name, equality):
    """Several delete files of one data file, and what names no single data file, beside one that names one."""
    t = Table(base, name, BASIC, [NONE])
    t.commit([(0, (), [row(i, f"a{i}") for i in range(4)]), (0, (), [row(i, f"b{i}") for i in range(4)])])
    t.commit(positions=[(0, [0])])
    t.commit(equality=equality, positions=[(0, [0])] if equality else [(0, [1]), (0, [0])])
    return t


if __name__ == "__main__":
    tables = [make(Path(sys.argv[1])) for make in (flat, parted, promoted, nested, mapped, anew)]
    base = Path(sys.argv[1])
    tables += [mixed(base, "mixed-positions", []), mixed(base, "mixed-equality", [(0, (), [1], [row(3)])])]
    print(json.dumps([{"name": t.name, "path": str(t.path), "versions": t.versions} for t in tables]))
