"""Makes Delta tables with delta-rs that ask something of their writers: writer_rules.py DIR"""
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
write_deltalake(f"{sys.argv[1]}/appendOnly", rows, configuration={"delta.appendOnly": "true"})
write_deltalake(f"{sys.argv[1]}/checkConstraints", rows)
DeltaTable(f"{sys.argv[1]}/checkConstraints").alter.add_constraint({"positive": "id > 0"})
write_deltalake(f"{sys.argv[1]}/plain", rows)
print("{}")
