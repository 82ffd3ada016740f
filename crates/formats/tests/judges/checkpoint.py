"""What other projects' readers find in the newest checkpoint of a Delta table: checkpoint.py TABLE APP

Prints {"files": N, "txn": VERSION, "groups": N, "domains": {DOMAIN: CONFIGURATION}, "txns": {APP: VERSION},
"tags": {FILE: TAGS}}, the last of files that have any.
"""
import json
import sys
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable

log = Path(sys.argv[1]) / "_delta_log"
version = json.loads((log / "_last_checkpoint").read_text())["version"]
file = pq.ParquetFile(log / f"{version:020}.checkpoint.parquet")
rows = file.read(columns=["txn", "domainMetadata", "add.path", "add.tags"]).to_pylist()
table = DeltaTable(sys.argv[1])
print(json.dumps({
    "files": len(table.file_uris()),
    "txn": table.transaction_version(sys.argv[2]),
    "groups": file.metadata.num_row_groups,
    "txns": {r["txn"]["appId"]: r["txn"]["version"] for r in rows if r["txn"]},
    "tags": {r["add"]["path"]: dict(r["add"]["tags"]) for r in rows if r["add"] and r["add"]["tags"] is not None},
    "domains": {r["domainMetadata"]["domain"]: r["domainMetadata"]["configuration"] for r in rows if r["domainMetadata"]},
}))
