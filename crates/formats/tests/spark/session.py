"""What the checks with Spark have in common: its session, hoglake's command line, and how results are compared."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

os.environ["TZ"] = "UTC"
time.tzset()

import pyspark
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "judges"))
import tables

# What goes with each Spark. Delta and Iceberg are there to write sources and to read targets, Hudi's version is asked for.
OTHERS = {
    "3.4": (),
    "3.5": ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.0", "io.delta:delta-spark_2.12:3.3.2"),
}


class Refused(Exception):
    """hoglake does not convert the table; the text says why."""


class Checks:
    """Compares what is expected with what a reader says."""

    def __init__(self, hoglake):
        self.hoglake = hoglake
        self.passed = 0
        self.failed = []

    def equal(self, name, expected, actual):
        if expected == actual:
            self.passed += 1
            return
        self.failed.append(name)
        print(f"FAILED {name}\n  expected {str(expected)[:600]}\n  got      {str(actual)[:900]}", flush=True)

    def attempt(self, name, check):
        """Runs a check whose reader may fail."""
        try:
            check()
        except Refused as error:
            self.equal(f"{name}: converted", "yes", str(error))
        except Exception as error:
            causes = [line for line in str(error).splitlines() if line.startswith("Caused by")]
            self.equal(f"{name}: readable", "yes", " | ".join([f"{type(error).__name__}: {error}"[:200], *causes[-2:]]))

    def convert(self, source, target, folder, *flags):
        """Converts in place; returns the report of the only target."""
        command = [self.hoglake, "sync", "--source", source, "--target", target, "--path", str(folder), "--json", *flags]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise Refused((json.loads(done.stdout)["error"] if done.stdout.startswith("{") else done.stderr).strip())
        return json.loads(done.stdout)

    def others_agree(self, name, rows, report, target):
        """Compares rows with what PyIceberg, delta-rs and DuckDB read, by metadata and by predicates too."""
        path = report["metadata-path"].removeprefix("file://")
        seen = tables.seen(target.lower(), path.removesuffix("/_delta_log"))
        if "error" in seen:
            self.equal(f"{name} as {target}", "readable", seen["error"])
            return
        problems = seen.pop("problems")
        self.equal(f"{name} as {target}: predicates", [], problems)
        for reader, read in seen.items():
            self.equal(f"{name} as {target} by {reader}", rows, read)


def session(hudi, others=True):
    """A Spark session; `hudi` is the version of the Hudi bundle, or None for Delta and Iceberg (`others`) alone."""
    version = ".".join(pyspark.__version__.split(".")[:2])
    packages = list(OTHERS[version]) if others else []
    extensions = []
    builder = SparkSession.builder.master("local[2]")
    if hudi:
        packages.append(f"org.apache.hudi:hudi-spark{version}-bundle_2.12:{hudi}")
        extensions.append("org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        builder = builder.config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar").config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
        )
    else:
        extensions += [
            "io.delta.sql.DeltaSparkSessionExtension",
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        ]
        builder = builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    for key, value in {
        "spark.jars.packages": ",".join(packages),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.sql.extensions": ",".join(extensions),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "1",
        "spark.ui.enabled": "false",
        # PyIceberg does not take INT96 for the microseconds of a table of version 3.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Otherwise Hudi writes lists in a form of two levels that not every reader knows; see hudi_sources.old_lists.
        "spark.hadoop.parquet.avro.write-old-list-structure": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    return builder


def rows(frame):
    """All rows as sorted JSON texts, spelled as the other readers' are."""
    return sorted(json.dumps(tables.plain(row.asDict(True)), sort_keys=True) for row in frame.collect())
