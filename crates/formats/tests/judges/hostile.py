"""Makes tables whose metadata is an attack.

hostile.py DIR      prints [{"name", "format", "path", "refused": whether reading it must end in an error}, ...]
"""
import gzip
import io
import json
import shutil
import struct
import sys
import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent

from equality import BASIC, NONE, ManifestWriterV2, Table, row

CASES = []


def case(format, refused=True):
    def register(make):
        CASES.append((make.__name__.replace("_", "-"), format, refused, make))
        return make
    return register


# --- Iceberg ----------------------------------------------------------------------------------------------------------


def iceberg(path):
    table = Table(path.parent, path.name, BASIC, [NONE])
    table.commit([(0, (), [row(1, "a", 1.0)])])
    table.commit([(0, (), [row(2, "b", 2.0)])])
    return table


def edit(path, change):
    file = sorted((path / "metadata").glob("v*.metadata.json"))[-1]
    metadata = json.loads(file.read_text())
    change(metadata)
    file.write_text(json.dumps(metadata))


def avro(schema, blocks, codec="null"):
    """An Avro file of (count, packed bytes) blocks, whatever they say."""
    def long(n):
        n = (n << 1) ^ (n >> 63)
        out = bytearray()
        while n >= 0x80:
            out.append(n & 0x7F | 0x80)
            n >>= 7
        return bytes(out) + bytes([n])

    def text(b):
        return long(len(b)) + b
    sync = b"s" * 16
    head = b"Obj\x01" + long(2) + text(b"avro.schema") + text(schema) + text(b"avro.codec") + text(codec.encode()) + long(0) + sync
    return head + b"".join(long(count) + text(data) + sync for count, data in blocks)


def list_file(path):
    return sorted((path / "metadata").glob("snap-*.avro"))[-1]


@case("ICEBERG")
def truncated_manifest_list(path):
    iceberg(path)
    file = list_file(path)
    file.write_bytes(file.read_bytes()[:-20])


@case("ICEBERG")
def truncated_manifest(path):
    iceberg(path)
    file = next((path / "metadata").glob("*-m.avro"))
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@case("ICEBERG", refused=False)
def cyclic_parents(path):
    iceberg(path)
    edit(path, lambda m: m["snapshots"][0].update({"parent-snapshot-id": 1002}))


@case("ICEBERG")
def current_snapshot_that_is_not_there(path):
    iceberg(path)
    edit(path, lambda m: m.update({"current-snapshot-id": 7}))


@case("ICEBERG")
def absurd_count_of_records(path):
    iceberg(path)
    list_file(path).write_bytes(avro(b'{"type":"record","name":"manifest_file","fields":[]}', [(2**62, b"")]))


@case("ICEBERG")
def absurd_length_of_block(path):
    iceberg(path)
    data = avro(b'"null"', [])
    list_file(path).write_bytes(data + b"\x02" + b"\xff" * 8 + b"\x7f")


@case("ICEBERG")
def bomb_in_a_block(path):
    iceberg(path)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = b"".join(packer.compress(bytes(1 << 20)) for _ in range(700)) + packer.flush()
    list_file(path).write_bytes(avro(b'"null"', [(1, packed)], "deflate"))


@case("ICEBERG")
def bomb_of_metadata(path):
    iceberg(path)
    (path / "metadata" / "version-hint.text").unlink()
    file = path / "metadata" / "v3.gz.metadata.json"
    with gzip.open(file, "wb") as out:
        for _ in range(1100):
            out.write(b" " * (1 << 20))


@case("ICEBERG")
def deep_schema(path):
    iceberg(path)
    ty = '"long"'
    for depth in range(5000):
        ty = f'{{"type":"list","element-id":{depth + 30},"element-required":false,"element":{ty}}}'
    file = path / "metadata" / "v2.metadata.json"
    text = file.read_text().replace('"type": "double"', f'"type": {ty}')
    assert len(text) > 100_000
    file.write_text(text)


@case("ICEBERG", refused=False)
def ten_thousand_columns_of_iceberg(path):
    iceberg(path)
    fields = [{"id": i, "name": f"c{i}", "required": False, "type": "string"} for i in range(100, 10_100)]
    edit(path, lambda m: (m["schemas"][0]["fields"].extend(fields), m.update({"last-column-id": 10_100})))


@case("ICEBERG", refused=False)
def absurd_times_and_numbers(path):
    iceberg(path)
    top = 2**63 - 1
    def change(m):
        m.update({"last-updated-ms": top, "last-sequence-number": top, "last-column-id": top, "last-partition-id": 2**31 - 1})
        m["snapshots"][1].update({"timestamp-ms": top, "sequence-number": top})
    edit(path, change)


class Pathed(Table):
    """Says that its files lie elsewhere, and hold absurd numbers of rows."""
    place, count = None, None

    def entry(self, path, content, rows, partition, fields=None):
        entry = super().entry(path, content, rows, partition, fields)
        if self.place:
            entry.data_file._data[1] = self.place
            assert entry.data_file.file_path == self.place
        if self.count:
            entry.data_file._data[4] = self.count
            assert entry.data_file.record_count == self.count
        return entry


@case("ICEBERG")
def traversal_of_iceberg(path):
    table = Pathed(path.parent, path.name, BASIC, [NONE])
    table.place = f"{path}/data/../../../etc/passwd"
    table.commit([(0, (), [row(1)])])


@case("ICEBERG", refused=False)
def absurd_rows_of_files(path):
    table = Pathed(path.parent, path.name, BASIC, [NONE])
    table.count = 2**63 - 1
    table.commit([(0, (), [row(1)]), (0, (), [row(2)]), (0, (), [row(3)])])


# --- Delta ------------------------------------------------------------------------------------------------------------


def delta(path, schema=None, lines=()):
    log = path / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]
    schema = schema or json.dumps({"type": "struct", "fields": fields})
    head = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": {"id": "m", "format": {"provider": "parquet", "options": {}}, "schemaString": schema,
                          "partitionColumns": [], "configuration": {}}}]
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(line) for line in [*head, *lines]))
    return log


def add(path, **more):
    return {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True, **more}}


@case("DELTA")
def truncated_commit(path):
    log = delta(path, lines=[add("a")])
    file = log / f"{0:020}.json"
    file.write_text(file.read_text()[:-20])


@case("DELTA")
def traversal_of_delta(path):
    delta(path, lines=[add("x/..%2F..%2Fetc/passwd", stats='{"numRecords":1}')])


@case("DELTA")
def traversal_of_a_vector(path):
    vector = {"storageType": "p", "pathOrInlineDv": f"file://{path}/../../../etc/passwd", "offset": 1, "sizeInBytes": 9, "cardinality": 1}
    delta(path, lines=[add("a", stats='{"numRecords":5}', deletionVector=vector)])


@case("DELTA")
def absurd_vector(path):
    (path / "v.bin").parent.mkdir(parents=True)
    (path / "v.bin").write_bytes(b"\x01" + struct.pack(">I", 2**31 - 1) + b"\xd1\xd3\x39\x64" + struct.pack("<Q", 2**60) + bytes(40))
    vector = {"storageType": "p", "pathOrInlineDv": f"file://{path}/v.bin", "offset": 1, "sizeInBytes": 2**31 - 1, "cardinality": 2**62}
    delta(path, lines=[add("a", stats='{"numRecords":5}', deletionVector=vector)])


@case("DELTA", refused=False)
def absurd_version_in_names(path):
    log = delta(path, lines=[add("a", stats='{"numRecords":5}')])
    (log / f"{2**63 - 1:020}.json").write_text("{}")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 2**63 - 1}))


@case("DELTA")
def deep_schema_of_delta(path):
    ty = '"long"'
    for _ in range(5000):
        ty = f'{{"type":"array","elementType":{ty},"containsNull":true}}'
    delta(path, '{"type":"struct","fields":[{"name":"a","type":%s,"nullable":true,"metadata":{}}]}' % ty)


@case("DELTA", refused=False)
def ten_thousand_columns_of_delta(path):
    fields = [{"name": f"c{i}", "type": "string", "nullable": True, "metadata": {}} for i in range(10_000)]
    stats = json.dumps({"numRecords": 5, "minValues": {f"c{i}": "a" for i in reversed(range(10_000))}})
    delta(path, json.dumps({"type": "struct", "fields": fields}), [add(f"f{i}", stats=stats) for i in range(5)])


@case("DELTA", refused=False)
def deep_statistics(path):
    delta(path, lines=[add("a", stats='{"numRecords":5,"minValues":' + '{"a":' * 100_000 + "1" + "}" * 100_001)])


@case("DELTA", refused=False)
def absurd_numbers_of_delta(path):
    top = 2**63 - 1
    delta(path, lines=[add(f"f{i}", size=top, modificationTime=top, stats=json.dumps({"numRecords": top})) for i in range(4)])


@case("DELTA", refused=False)
def bomb_of_a_checkpoint(path):
    log = delta(path)
    big = pa.array(["x" * (64 << 20)] * 30)
    columns = [big, pa.array([[]] * 30, pa.map_(pa.string(), pa.string())), pa.array([1] * 30)]
    adds = pa.StructArray.from_arrays(columns, names=["path", "partitionValues", "size"])
    pq.write_table(pa.table({"add": adds}), log / f"{0:020}.checkpoint.parquet", compression="zstd", use_dictionary=False)


@case("DELTA")
def checkpoint_of_lies(path):
    log = delta(path)
    (log / f"{0:020}.checkpoint.parquet").write_bytes(b"PAR1" + b"\x15\x02\x19\xfc\xff\xff\xff\x0f" + struct.pack("<I", 8) + b"PAR1")


# --- Hudi -------------------------------------------------------------------------------------------------------------


def hudi(path, files=None, commit=None, partitions=""):
    (path / ".hoodie").mkdir(parents=True)
    lines = ["hoodie.table.name=t", "hoodie.table.version=6", "hoodie.timeline.layout.version=1", "hoodie.table.type=COPY_ON_WRITE",
             "hoodie.populate.meta.fields=false", f"hoodie.table.metadata.partitions={partitions}"]
    (path / ".hoodie" / "hoodie.properties").write_text("\n".join(lines))
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["null", "long"], "default": None}]}
    default = {"partitionToWriteStats": {"": files or []}, "extraMetadata": {"schema": json.dumps(schema)}}
    text = json.dumps(default) if commit is None else commit
    (path / ".hoodie" / "20240101000000000.commit").write_text(text)


@case("HUDI")
def truncated_hudi_commit(path):
    hudi(path, commit='{"partitionToWriteStats":{"":[{"path"')


@case("HUDI")
def deep_hudi_schema(path):
    ty = '"long"'
    for _ in range(3000):
        ty = f'{{"type":"array","items":{ty}}}'
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":%s}]}' % ty
    hudi(path, commit=json.dumps({"extraMetadata": {"schema": schema}}))


@case("HUDI")
def cyclic_hudi_schema(path):
    schema = '{"type":"record","name":"r","fields":[{"name":"a","type":["null","r"]}]}'
    hudi(path, commit=json.dumps({"extraMetadata": {"schema": schema}}))


@case("HUDI", refused=False)
def ten_thousand_columns_of_hudi(path):
    fields = [{"name": f"c{i}", "type": ["null", "string"], "default": None} for i in range(10_000)]
    hudi(path, commit=json.dumps({"extraMetadata": {"schema": json.dumps({"type": "record", "name": "r", "fields": fields})}}))


@case("HUDI")
def hfile_of_lies(path):
    hudi(path, partitions="files")
    table = path / ".hoodie" / "metadata"
    (table / ".hoodie").mkdir(parents=True)
    (table / "files").mkdir()
    shutil.copy(path / ".hoodie" / "hoodie.properties", table / ".hoodie")
    (table / ".hoodie" / "20240101000000000.deltacommit").write_text("{}")
    body = b"DATABLK*" + struct.pack(">IIQ", 2**31 - 1, 2**31 - 1, 2**62) + bytes(64)
    trailer = b'TRABLK"$' + b"\xff" * 120 + struct.pack(">I", 3)
    (table / "files" / "files-0000-0_0-0-0_00000000000000010.hfile").write_bytes(body + trailer.ljust(4096, b"\xff"))


def real_hudi(path):
    """A copy of a table that Hudi wrote, with the files of its metadata table."""
    for archive in sorted((Path(__file__).parents[1] / "data" / "corpus" / "hudi").glob("*/table.zip")):
        with zipfile.ZipFile(archive) as packed:
            if any(name.endswith(".hfile") for name in packed.namelist()):
                packed.extractall(path.parent / f"{path.name}-unpacked")
                shutil.move(path.parent / f"{path.name}-unpacked" / "table", path)
                break
    found = sorted((path / ".hoodie" / "metadata" / "files").glob("*.hfile"))
    assert found
    return found


@case("HUDI")
def blocks_of_an_hfile_that_claim_too_much(path):
    for file in real_hudi(path):
        data = bytearray(file.read_bytes())
        at = data.find(b"DATABLK*")
        assert at >= 0
        data[at + 12 : at + 16] = struct.pack(">I", 2**31 - 1)
        file.write_bytes(data)


@case("HUDI")
def trailer_of_an_hfile_that_points_nowhere(path):
    for file in real_hudi(path):
        data = bytearray(file.read_bytes())
        # Behind the mark and the length of the trailer's message.
        at = data.rfind(b'TRABLK"$') + 10
        assert at > 10
        data[at : at + 60] = b"\xff" * 60
        file.write_bytes(data)


@case("HUDI")
def truncated_hfile(path):
    for file in real_hudi(path):
        file.write_bytes(file.read_bytes()[:-500])


# --- Parquet, as a source and below other formats --------------------------------------------------------------------


LIES = b"PAR1" + b"\x15\x02\x19\xfc\xff\xff\xff\x0f" + struct.pack("<I", 8) + b"PAR1"


def varint(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def footer(elements, rows=1, groups=b"\x0c"):
    """A Parquet file that is a footer alone, in Thrift's compact protocol."""
    body = b"\x15\x02" + b"\x19\xfc" + varint(len(elements)) + b"".join(elements)
    body += b"\x16" + varint(rows << 1) + b"\x19" + groups + b"\x00"
    return b"PAR1" + body + struct.pack("<I", len(body)) + b"PAR1"


GROUP = b"\x35\x02\x18\x01a\x15\x02\x00"
LEAF = b"\x15\x04\x25\x02\x18\x01a\x00"
ROOT = b"\x48\x01r\x15\x02\x00"


@case("PARQUET")
def footer_of_lies(path):
    path.mkdir()
    (path / "a.parquet").write_bytes(LIES)


@case("PARQUET")
def deep_footer(path):
    path.mkdir()
    (path / "a.parquet").write_bytes(footer([ROOT, *[GROUP] * 5000, LEAF]))


@case("PARQUET")
def footer_longer_than_its_file(path):
    path.mkdir()
    (path / "a.parquet").write_bytes(b"PAR1" + bytes(64) + struct.pack("<I", 2**32 - 1) + b"PAR1")


@case("PARQUET")
def footer_whose_columns_claim_children_without_end(path):
    path.mkdir()
    (path / "a.parquet").write_bytes(footer([b"\x48\x01r\x15" + varint((2**31 - 1) << 1) + b"\x00", LEAF]))


@case("PARQUET", refused=False)
def footer_of_absurd_rows(path):
    path.mkdir()
    for name in "abc":
        (path / f"{name}.parquet").write_bytes(footer([ROOT, LEAF], rows=2**63 - 1))


@case("PARQUET")
def footer_of_absurd_row_groups(path):
    path.mkdir()
    (path / "a.parquet").write_bytes(footer([ROOT, LEAF], groups=b"\xfc" + varint(2**31 - 1)))


@case("PARQUET", refused=False)
def ten_thousand_columns_of_parquet(path):
    path.mkdir()
    pq.write_table(pa.table({f"c{i}": pa.array([1, None]) for i in range(10_000)}), path / "a.parquet")


@case("PARQUET", refused=False)
def deep_folders(path):
    deep = path.joinpath(*["k=1"] * 300)
    deep.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), deep / "a.parquet")


@case("DELTA")
def footer_of_lies_below_delta(path):
    # Without statistics the footer is asked for the number of rows.
    delta(path, lines=[add("a.parquet")])
    (path / "a.parquet").write_bytes(LIES)


@case("DELTA")
def deep_footer_below_delta(path):
    delta(path, lines=[add("a.parquet", size=100_000)])
    (path / "a.parquet").write_bytes(footer([ROOT, *[GROUP] * 5000, LEAF]))


# --- delete files -----------------------------------------------------------------------------------------------------


@case("DELTA")
def vector_of_absurd_buckets(path):
    path.mkdir()
    vector = b"\xd1\xd3\x39\x64" + struct.pack("<Q", 2**60) + struct.pack("<I", 0) + b"\xff" * 40
    framed = struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    (path / "v.bin").write_bytes(b"\x01" + framed)
    descriptor = {"storageType": "p", "pathOrInlineDv": f"file://{path}/v.bin", "offset": 1, "sizeInBytes": len(vector), "cardinality": 5}
    delta(path, lines=[add("a", stats='{"numRecords":5}', deletionVector=descriptor)])


@case("DELTA")
def truncated_vector(path):
    path.mkdir()
    (path / "v.bin").write_bytes(b"\x01" + struct.pack(">I", 400) + b"\xd1\xd3\x39\x64" + bytes(20))
    descriptor = {"storageType": "p", "pathOrInlineDv": f"file://{path}/v.bin", "offset": 1, "sizeInBytes": 400, "cardinality": 5}
    delta(path, lines=[add("a", stats='{"numRecords":5}', deletionVector=descriptor)])


class Replaced(Table):
    """Has something else where its position deletes should be."""
    instead = None

    def entry(self, path, content, rows, partition, fields=None, bounds=None):
        if content == DataFileContent.POSITION_DELETES:
            self.instead(path)
            rows = 1
        return super().entry(path, content, rows, partition, fields, bounds)


def with_positions(path, instead):
    table = Replaced(path.parent, path.name, BASIC, [NONE])
    table.instead = instead
    table.commit([(0, (), [row(1, "a", 1.0), row(2, "b", 2.0)])])
    table.commit(positions=[(0, [0])])
    return table


def positions_of(paths, positions):
    ids = [{"PARQUET:field_id": "2147483546"}, {"PARQUET:field_id": "2147483545"}]
    schema = pa.schema([pa.field("file_path", pa.string(), False, ids[0]), pa.field("pos", pa.int64(), False, ids[1])])
    return pa.table([pa.array(paths), pa.array(positions)], schema=schema)


@case("ICEBERG")
def position_deletes_of_lies(path):
    with_positions(path, lambda file: file.write_bytes(LIES))


@case("ICEBERG")
def position_deletes_that_are_truncated(path):
    with_positions(path, lambda file: file.write_bytes(file.read_bytes()[:-30]))


@case("ICEBERG", refused=False)
def bomb_of_position_deletes(path):
    def instead(file):
        table = positions_of(["x" * (64 << 20)] * 30, list(range(30)))
        pq.write_table(table, file, compression="zstd", use_dictionary=False)
    with_positions(path, instead)


@case("ICEBERG", refused=False)
def absurd_positions(path):
    def instead(file):
        own = pq.read_table(file)["file_path"][0].as_py()
        pq.write_table(positions_of([own] * 3, [-5, 2**31, 2**63 - 1]), file)
    with_positions(path, instead)


@case("ICEBERG")
def position_deletes_of_other_columns(path):
    with_positions(path, lambda file: pq.write_table(pa.table({"file_path": [1], "pos": ["a"]}), file))


if __name__ == "__main__":
    made = []
    for name, format, refused, make in CASES:
        path = Path(sys.argv[1]) / name
        make(path)
        made.append({"name": name, "format": format, "path": str(path), "refused": refused})
    print(json.dumps(made))
