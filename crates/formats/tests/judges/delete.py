"""Deletes rows of a Delta table with delta-rs, as somebody who knows nothing of conversions: delete.py TABLE PREDICATE"""
import json
import sys

from deltalake import DeltaTable

print(json.dumps(DeltaTable(sys.argv[1]).delete(sys.argv[2])))
