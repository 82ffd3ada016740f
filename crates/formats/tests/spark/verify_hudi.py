"""Lets Spark with the Hudi bundle read what hoglake wrote, and compares every row with what pyarrow reads.

usage: verify_hudi.py PATH_TO_TO_HUDI PATH_TO_HUDI_BUNDLE_JAR

Each scenario changes a folder of Parquet files step by step, converts it to Hudi in place after every step, and asks
Spark for the rows, for count(*) and for the rows of one partition. The Delta tables of the corpus are converted as they
are, those that hoglake does not refuse, and counted.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus"
DELTA = sorted(p.parent.name for p in (CORPUS / "delta").glob("*/expected.json"))

to_hudi, jar = sys.argv[1:3]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars", jar)
    .config("spark.driver.extraClassPath", jar)
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
failures = 0
checks = 0


def convert(kind, folder):
    subprocess.run([to_hudi, kind, str(folder)], check=True, capture_output=True, text=True)


def load(folder):
    return spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(folder))


def canonical(rows):
    return sorted(json.dumps({k: str(v) for k, v in row.items()}, sort_keys=True) for row in rows)


def check(name, expected, actual):
    global checks, failures
    checks += 1
    if expected != actual:
        failures += 1
        print(f"FAILED {name}\n  expected {str(expected)[:400]}\n  got      {str(actual)[:400]}", flush=True)


def rows_agree(name, folder, partitioned):
    files = [str(p) for p in sorted(folder.rglob("*.parquet")) if ".hoodie" not in p.parts]
    partitioning = ds.partitioning(flavor="hive") if partitioned else None
    table = ds.dataset(files, format="parquet", partitioning=partitioning, partition_base_dir=str(folder)).to_table()
    expected = table.to_pylist()
    frame = load(folder)
    check(f"{name}: rows", canonical(expected), canonical(row.asDict(True) for row in frame.collect()))
    check(f"{name}: count", len(expected), frame.count())
    if partitioned:
        value = expected[0]["k"]
        wanted = [row for row in expected if row["k"] == value]
        check(f"{name}: one partition", canonical(wanted), canonical(r.asDict(True) for r in frame.where(frame.k == value).collect()))


def write(folder, key, start, extra=False):
    path = folder / key
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {
        "id": pa.array(range(start, start + 5), pa.int64()),
        "name": pa.array([None if i == 2 else f"n{start + i}" for i in range(5)]),
        "price": pa.array([None] + [i * 100 for i in range(4)], pa.int32()),
        "day": pa.array(range(5), pa.date32()),
        "tags": pa.array([[1, 2], [], None, [3], [4]], pa.list_(pa.int32())),
    }
    if extra:
        columns["added"] = pa.array([float(i) for i in range(5)], pa.float64())
    pq.write_table(pa.table(columns), path)
    # The next version must have a later time.
    clock[0] += 1
    os.utime(path, (clock[0], clock[0]))


clock = [1_700_000_000]
refused = []

with tempfile.TemporaryDirectory() as work:
    work = Path(work)
    for partitioned in (True, False):
        folder = work / f"steps-{partitioned}"
        name = (lambda f: f"k=p{len(f) % 3}/{f}") if partitioned else (lambda f: f)
        label = "partitioned" if partitioned else "unpartitioned"
        write(folder, name("a.parquet"), 0)
        convert("parquet", folder)
        rows_agree(f"{label} first", folder, partitioned)
        write(folder, name("bb.parquet"), 10)
        convert("parquet", folder)
        rows_agree(f"{label} appended", folder, partitioned)
        (folder / name("a.parquet")).unlink()
        convert("parquet", folder)
        rows_agree(f"{label} removed", folder, partitioned)
        write(folder, name("a.parquet"), 20)
        convert("parquet", folder)
        rows_agree(f"{label} came back", folder, partitioned)
        for i in range(40):
            write(folder, name(f"f{i:02}.parquet"), 100 + 10 * i)
            convert("parquet", folder)
        rows_agree(f"{label} after archiving", folder, partitioned)
        write(folder, name("wider.parquet"), 900, extra=True)
        convert("parquet", folder)
        check(f"{label} new column: count", 5 * sum(1 for p in folder.rglob("*.parquet")), load(folder).count())
        check(f"{label} new column: sum", 10.0, load(folder).selectExpr("sum(added)").first()[0])
    for case in DELTA:
        folder = work / case
        shutil.copytree(CORPUS / "delta" / case / "table", folder)
        try:
            convert("delta", folder)
        except subprocess.CalledProcessError as error:
            refused.append(f"{case}: {error.stderr.strip()[:160]}")
            continue
        expected = json.loads((CORPUS / "delta" / case / "expected.json").read_text())
        try:
            rows = load(folder).count()
        except Exception as error:
            rows = str(error).splitlines()[0]
        check(f"{case}: count", expected["rows"], rows)

print("refused by hoglake:", *refused, sep="\n  ")
print(f"hudi {Path(jar).stem}: {checks - failures} passed, {failures} failed")
sys.exit(1 if failures else 0)
