"""Lets Spark with the runtimes of Hudi, Iceberg and Delta read what hoglake wrote.

verify.py HOGLAKE HUDI_VERSION      the binary, and the version of the Hudi bundle for Spark 3.5 (`./x verify-spark` does it)

Hudi: a folder of Parquet files is changed step by step and converted in place after every step; Spark's rows, count(*) and
rows of one partition are compared with what pyarrow reads. Delta tables of the corpus become Hudi and Iceberg, Iceberg
tables become Delta, those that hoglake does not refuse; rows are compared with what Spark reads from a Delta source, and
counted where the source is Iceberg, whose paths are of another machine. The packages come from Maven Central by Spark itself.
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

hoglake, hudi_version = sys.argv[1:3]
PACKAGES = (
    f"org.apache.hudi:hudi-spark3.5-bundle_2.12:{hudi_version}",
    "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.9.2",
    "io.delta:delta-spark_2.12:3.3.2",
)
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", ",".join(PACKAGES))
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension,io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "2g")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
failures = 0
checks = 0


def convert(source, target, folder, *flags):
    command = [hoglake, "sync", "--source", source, "--target", target, "--path", str(folder), "--json", *flags]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused((json.loads(done.stdout)["error"] if done.stdout.startswith("{") else done.stderr).strip())
    return json.loads(done.stdout)["metadata-path"]


class Refused(Exception):
    pass


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


def cases(source, *targets):
    for case in sorted(p.parent.name for p in (CORPUS / source.lower()).glob("*/expected.json")):
        if json.loads((CORPUS / source.lower() / case / "expected.json").read_text())["expect"] == "read":
            yield from ((case, source, target, target.lower()) for target in targets)


CASES = [*cases("DELTA", "HUDI", "ICEBERG"), *cases("ICEBERG", "DELTA")]
clock = [1_700_000_000]
refused = []

with tempfile.TemporaryDirectory() as work:
    work = Path(work)
    for partitioned in (True, False):
        folder = work / f"steps-{partitioned}"
        name = (lambda f: f"k=p{len(f) % 3}/{f}") if partitioned else (lambda f: f)
        label = "partitioned" if partitioned else "unpartitioned"
        write(folder, name("a.parquet"), 0)
        convert("PARQUET", "HUDI", folder)
        rows_agree(f"{label} first", folder, partitioned)
        write(folder, name("bb.parquet"), 10)
        convert("PARQUET", "HUDI", folder)
        rows_agree(f"{label} appended", folder, partitioned)
        (folder / name("a.parquet")).unlink()
        convert("PARQUET", "HUDI", folder)
        rows_agree(f"{label} removed", folder, partitioned)
        write(folder, name("a.parquet"), 20)
        convert("PARQUET", "HUDI", folder)
        rows_agree(f"{label} came back", folder, partitioned)
        for i in range(40):
            write(folder, name(f"f{i:02}.parquet"), 100 + 10 * i)
            convert("PARQUET", "HUDI", folder)
        rows_agree(f"{label} after archiving", folder, partitioned)
        write(folder, name("wider.parquet"), 900, extra=True)
        convert("PARQUET", "HUDI", folder)
        check(f"{label} new column: count", 5 * sum(1 for p in folder.rglob("*.parquet")), load(folder).count())
        check(f"{label} new column: sum", 10.0, load(folder).selectExpr("sum(added)").first()[0])
    for case, source, target, reader in CASES:
        folder = work / f"{case}-{target}"
        shutil.copytree(CORPUS / source.lower() / case / "table", folder)
        name = f"{case} from {source} to {target}"
        try:
            path = convert(source, target, folder, *(("--on-unsupported-deletes", "materialize") if source == "ICEBERG" else ()))
        except Refused as error:
            refused.append(f"{name}: {str(error)[:160]}")
            continue
        expected = json.loads((CORPUS / source.lower() / case / "expected.json").read_text())
        try:
            frame = load(folder) if target == "HUDI" else spark.read.format(reader).load(path if target == "ICEBERG" else str(folder))
            check(f"{name}: count", expected["rows"], frame.count())
            if source == "DELTA" and target == "ICEBERG":
                truth = spark.read.format("delta").load(str(folder))
                check(f"{name}: rows", canonical(r.asDict(True) for r in truth.collect()), canonical(r.asDict(True) for r in frame.collect()))
            elif target == "DELTA":
                check(f"{name}: all read", expected["rows"], len(frame.collect()))
        except Exception as error:
            check(f"{name}: readable", "yes", str(error).splitlines()[0])

print("refused by hoglake:", *refused, sep="\n  ")
print(f"Spark {spark.version}, Hudi {hudi_version}: {checks - failures} passed, {failures} failed")
sys.exit(1 if failures else 0)
