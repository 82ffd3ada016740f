"""Lets Spark read what hoglake wrote, and hoglake read what Spark wrote. `./x verify-spark` runs it.

verify.py HOGLAKE HUDI_VERSION [PART...]    Hudi as a target and as a source, with the bundle of that version
verify.py HOGLAKE none [PART...]            Iceberg and Delta, row-level deletes included

The packages come from Maven Central by Spark itself. The last line says how many checks passed; the exit code is 1 when
one failed that is not known and explained.
"""

import sys
import tempfile
from pathlib import Path

# first, because it says where the judges' modules are
from session import Checks, session

import corpus_tables
import hudi_sources
import hudi_targets
import row_deletes

hoglake, hudi = sys.argv[1:3]
parts = sys.argv[3:]
PARTS = {
    "targets": hudi_targets.run,
    "sources": hudi_sources.run,
    "corpus": corpus_tables.to_hudi,
} if hudi != "none" else {"corpus": corpus_tables.to_iceberg_and_delta, "deletes": row_deletes.run}

checks = Checks(hoglake)
with tempfile.TemporaryDirectory() as work:
    work = Path(work)
    builder = session(None if hudi == "none" else hudi, others=parts != ["targets"])
    spark = builder.config("spark.sql.warehouse.dir", str(work / "warehouse")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for part in parts or PARTS:
        PARTS[part](spark, checks, work, hudi)
    label = f"Spark {spark.version}, " + (f"Hudi {hudi}" if hudi != "none" else "Iceberg and Delta")
    spark.stop()
print(f"{label}: {checks.passed} passed, {len(checks.failed)} failed", flush=True)
sys.exit(1 if checks.failed else 0)
