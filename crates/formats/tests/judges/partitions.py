"""Makes a Delta table with odd partition values: partitions.py DIR"""
import sys

import pyarrow as pa
from deltalake import write_deltalake

VALUES = ["plain", "a b", "100%", "é/ü", "日本", "x=1&y", "+%2B", "#?", None]

if __name__ == "__main__":
    table = pa.table({"id": list(range(len(VALUES))), "k": pa.array(VALUES, pa.string())})
    write_deltalake(sys.argv[1], table, partition_by=["k"])
    print("{}")
