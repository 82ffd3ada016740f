"""Lists the data files of an Iceberg table of version 2 twice, as a faulty writer might.

doubled.py METADATA WHERE [KEPT]    WHERE is "manifests" (each file in two of them) or "manifest" (twice in the same one);
                                    prints {"metadata": FILE, "rows": COUNT}, the new version and what PyIceberg reads in it.
                                    With KEPT, a property that names the current snapshot names the new one.
"""
import json
import sys
import uuid
from pathlib import Path

from pyiceberg.manifest import ManifestContent, write_manifest, write_manifest_list
from pyiceberg.table import StaticTable

place, where, kept = Path(sys.argv[1].removeprefix("file://")), sys.argv[2], sys.argv[3:]
table = StaticTable.from_metadata(str(place))
snapshot, folder = table.current_snapshot(), place.parent
number, sequence = snapshot.snapshot_id - 1, table.metadata.last_sequence_number + 1


def copied(manifest, entries):
    output = table.io.new_output(f"{folder}/{uuid.uuid4()}-doubled.avro")
    spec = table.metadata.specs()[manifest.partition_spec_id]
    with write_manifest(2, spec, table.metadata.schema(), output, number, "null") as writer:
        for entry in entries:
            if where == "manifest":
                writer.existing(entry).existing(entry)
            else:
                entry.sequence_number = None
                writer.add(entry)
    return writer.to_manifest_file()


listed = []
for manifest in snapshot.manifests(table.io):
    live = manifest.fetch_manifest_entry(table.io) if manifest.content == ManifestContent.DATA else []
    if not live or where == "manifests":
        listed.append(manifest)
    if live:
        listed.append(copied(manifest, live))
listing = f"{folder}/snap-{number}-doubled.avro"
with write_manifest_list(2, table.io.new_output(listing), number, snapshot.snapshot_id, sequence, "null") as writer:
    writer.add_manifests(listed)

metadata = json.loads(place.read_text())
metadata["snapshots"].append({
    "snapshot-id": number, "parent-snapshot-id": snapshot.snapshot_id, "sequence-number": sequence, "manifest-list": listing,
    "timestamp-ms": metadata["last-updated-ms"], "schema-id": snapshot.schema_id, "summary": {"operation": "append"}})
metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = number
metadata["last-sequence-number"] = sequence
metadata["properties"].update({key: str(number) for key in kept})
version = int(place.name.removeprefix("v").split(".")[0]) + 1
new = folder / f"v{version}.metadata.json"
new.write_text(json.dumps(metadata))
print(json.dumps({"metadata": str(new), "rows": StaticTable.from_metadata(str(new)).scan().to_arrow().num_rows}))
