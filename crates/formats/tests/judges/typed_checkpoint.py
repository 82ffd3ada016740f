"""typed_checkpoint.py TABLE: lets delta-rs write a checkpoint of a Delta table that has statistics as typed columns only; the
answer is its version."""
import json
import sys

import pyarrow.parquet as pq
from deltalake import DeltaTable

path = sys.argv[1]
table = DeltaTable(path)
table.alter.set_table_properties(
    {"delta.checkpoint.writeStatsAsStruct": "true", "delta.checkpoint.writeStatsAsJson": "false"}
)
table = DeltaTable(path)
table.create_checkpoint()
version = table.version()
add = pq.read_schema(f"{path}/_delta_log/{version:020}.checkpoint.parquet").field("add").type
assert add.get_field_index("stats_parsed") >= 0 and add.get_field_index("stats") < 0, add
print(json.dumps(version))
