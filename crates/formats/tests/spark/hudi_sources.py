"""Hudi tables that Spark writes, converted to Iceberg and Delta after every action.

What Spark reads from the Hudi table is compared with what PyIceberg, delta-rs and DuckDB read from the targets, which
follow commit by commit; at the end all targets are compared once more after a full sync, and with targets that were made
anew. Merge-on-read tables are refused while log files are pending, or shown without them when asked for.
"""

import shutil

import tables
from session import OTHERS, Refused, rows

SCHEMA = "id int, k string, name string, price double, at timestamp, day date, tags array<int>"


class Table:
    """A Hudi table that Spark writes."""

    def __init__(self, spark, checks, folder, name, partitioned, kind="COPY_ON_WRITE"):
        self.spark, self.checks, self.folder, self.name = spark, checks, folder, name
        self.partitioned = partitioned
        self.modes = []
        self.options = {
            "hoodie.table.name": name,
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "price",
            "hoodie.datasource.write.partitionpath.field": "k" if partitioned else "",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.reconcile.schema": "true",
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.compact.max.delta.commits": "1000",
            "hoodie.parquet.small.file.limit": "0",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.insert.shuffle.parallelism": "1",
        }

    def frame(self, ids, price=1.0, keys=("a", "b", "c"), extra=False):
        data = self.spark.createDataFrame([(i,) for i in ids], "id int")
        key = "element_at(array(" + ",".join(f"'{k}'" for k in keys) + f"), cast(id % {len(keys)} as int) + 1)"
        columns = [
            "id",
            f"{key} as k",
            "if(id % 5 = 0, null, concat('n', id)) as name",
            f"cast({price} + id / 8 as double) as price",
            "timestamp_micros(1700000000000001 + id * 1000003) as at",
            "date_add(date'1969-12-25', id) as day",
            "array(id, id + 1) as tags",
        ]
        if extra:
            columns.append("cast(id as bigint) * 10 as added")
        return data.selectExpr(*columns)

    def write(self, frame, operation="upsert", mode="append", **more):
        options = {**self.options, "hoodie.datasource.write.operation": operation, **more}
        frame.write.format("hudi").options(**options).mode(mode).save(str(self.folder))

    def read(self):
        return self.spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(self.folder))

    def instants(self):
        folder = self.folder / ".hoodie"
        if (folder / "timeline").is_dir():
            folder = folder / "timeline"
        ends = (".commit", ".replacecommit", ".deltacommit")
        return sorted(p.name.split(".")[0].split("_")[0] for p in folder.iterdir() if p.name.endswith(ends))

    def step(self, what, action, expect=None):
        """Acts, converts, compares. `expect` is the plan that the conversion must have, when it matters."""
        label = f"{self.name} {what}"

        def check():
            action()
            self.spark.catalog.clearCache()
            expected = rows(self.read())
            for target in ("ICEBERG", "DELTA"):
                report = self.checks.convert("HUDI", target, self.folder)
                if expect:
                    self.checks.equal(f"{label} as {target}: how", expect, report["plan"])
                self.checks.others_agree(label, expected, report, target)

        self.checks.attempt(label, check)

    def anew(self, what):
        """The same by a full sync, and by targets that did not exist."""
        label = f"{self.name} {what}"

        def check():
            expected = rows(self.read())
            for target in ("ICEBERG", "DELTA"):
                report = self.checks.convert("HUDI", target, self.folder, "--full")
                self.checks.others_agree(f"{label}, full", expected, report, target)
            for folder in ("metadata", "_delta_log"):
                shutil.rmtree(self.folder / folder)
            for target in ("ICEBERG", "DELTA"):
                report = self.checks.convert("HUDI", target, self.folder)
                self.checks.others_agree(f"{label}, new", expected, report, target)

        self.checks.attempt(label, check)

    def call(self, procedure):
        return self.spark.sql(f"call {procedure}").collect()


def copy_on_write(spark, checks, work, partitioned):
    name = "cow_partitioned" if partitioned else "cow_unpartitioned"
    table = Table(spark, checks, work / name, name, partitioned)
    table.step("inserted", lambda: table.write(table.frame(range(20)), "insert", "overwrite"))
    spark.sql(f"create table {name} using hudi location '{table.folder}'")
    table.step("upserted", lambda: table.write(table.frame(range(15, 25), 100.0)), "incremental")
    table.step("deleted", lambda: table.write(table.frame([1, 7, 16]), "delete"), "incremental")
    table.step("nothing new", lambda: None, "no-change")
    table.step("bulk inserted", lambda: table.write(table.frame(range(100, 110)), "bulk_insert"), "incremental")
    table.step("new column", lambda: table.write(table.frame(range(20, 23), 200.0, extra=True)), "incremental")
    if partitioned:
        only = table.frame(range(300, 306), keys=("a",), extra=True)
        table.step("partition overwritten", lambda: table.write(only, "insert_overwrite"), "incremental")
        dropped = {"hoodie.datasource.write.partitions.to.delete": "k=b"}
        table.step("partition dropped", lambda: table.write(only.limit(0), "delete_partition", **dropped), "incremental")
        back = table.frame(range(400, 404), keys=("b",), extra=True)
        table.step("partition filled again", lambda: table.write(back), "incremental")
        table.step("null partition", lambda: table.write(back.selectExpr("id + 50 as id", "cast(null as string) as k", *back.columns[2:])), "incremental")
    clustering = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
    }
    table.step("clustered", lambda: table.write(table.frame(range(500, 503), extra=True), **clustering), "incremental")
    point = table.instants()[-1]
    table.step("savepoint", lambda: table.call(f"create_savepoint(table => '{name}', commit_time => '{point}')"), "no-change")
    table.step("upserted after savepoint", lambda: table.write(table.frame(range(500, 510), 300.0, extra=True)), "incremental")
    # A restore rebuilds the metadata table from a listing, and takes a checkpoint of the Delta log for a file of Hudi's.
    shutil.rmtree(table.folder / "_delta_log", ignore_errors=True)
    table.step("rolled back to savepoint", lambda: table.call(f"rollback_to_savepoint(table => '{name}', instant_time => '{point}')"))
    table.step("upserted after rollback", lambda: table.write(table.frame(range(500, 504), 400.0, extra=True)))
    table.step("savepoint deleted", lambda: table.call(f"delete_savepoint(table => '{name}', instant_time => '{point}')"))
    table.step("last commit undone", lambda: table.call(f"rollback_to_instant(table => '{name}', instant_time => '{table.instants()[-1]}')"))
    if partitioned:
        everything = table.frame(range(600, 612), extra=True)
        table.step("all overwritten", lambda: table.write(everything, "insert_overwrite_table"))
    table.anew("compared")
    keep = {
        "hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "2", "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5", "hoodie.archive.merge.enable": "false",
    }
    for i in range(8):
        table.step(f"cleaned and archived {i}", lambda: table.write(table.frame(range(600 + i, 605 + i), 500.0 + i, extra=True), **keep), "incremental" if i else None)

    def many():
        for i in range(8):
            table.write(table.frame(range(700, 703 + i), 600.0 + i, extra=True), **keep)

    table.step("far behind", many, "full")
    table.anew("after cleaning and archiving")


def merge_on_read(spark, checks, work):
    table = Table(spark, checks, work / "mor", "mor", True, "MERGE_ON_READ")
    table.options["hoodie.compact.inline"] = "false"
    # As many commits as there are log files wait for a compaction.
    spark.sql("set hoodie.compact.inline.max.delta.commits=1")
    table.step("inserted", lambda: table.write(table.frame(range(20)), "bulk_insert", "overwrite"))
    spark.sql(f"create table mor using hudi location '{table.folder}'")
    base = rows(table.read())
    table.write(table.frame(range(0, 10, 2), 50.0))
    try:
        table.checks.convert("HUDI", "ICEBERG", table.folder)
        checks.equal("mor with log files: refused", "yes", "no")
    except Refused as error:
        checks.equal("mor with log files: refused", True, ".log." in str(error))
    report = table.checks.convert("HUDI", "ICEBERG", table.folder, "--read-optimised")
    checks.others_agree("mor read-optimised", base, report, "ICEBERG")
    try:
        table.checks.convert("HUDI", "ICEBERG", table.folder)
        checks.equal("mor after the read-optimised view: refused again", "yes", "no")
    except Refused as error:
        checks.equal("mor after the read-optimised view: refused again", True, ".log." in str(error))
    warnings = " ".join(report.get("warnings", []))
    checks.equal("mor read-optimised: warned", True, "read-optimised" in warnings)

    def compact():
        table.call("run_compaction(op => 'scheduleandexecute', table => 'mor')")

    table.step("compacted", compact)
    table.anew("compared")


def old_lists(spark, checks, work):
    """Lists of two levels, which Hudi writes unless told otherwise. DuckDB reads their elements as null in Delta tables,
    and Spark with Iceberg does not read them at all."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("parquet.avro.write-old-list-structure", "true")
    try:
        table = Table(spark, checks, work / "old_lists", "old_lists", False)
        table.write(table.frame(range(20)), "insert", "overwrite")
        table.write(table.frame(range(5)))
    finally:
        conf.set("parquet.avro.write-old-list-structure", "false")
    expected = rows(table.read())
    checks.others_agree("old lists", expected, checks.convert("HUDI", "ICEBERG", table.folder), "ICEBERG")
    checks.convert("HUDI", "DELTA", table.folder)
    checks.equal("old lists as DELTA by delta-rs", expected, tables.seen("delta", str(table.folder)).get("delta-rs"))
    if any("delta" in package for package in OTHERS[".".join(spark.version.split(".")[:2])]):
        checks.equal("old lists as DELTA by Spark", expected, rows(spark.read.format("delta").load(str(table.folder))))


def run(spark, checks, work, hudi):
    # Hudi takes no commit back that its metadata table has compacted. Procedures take this from the session only.
    spark.sql("set hoodie.metadata.compact.max.delta.commits=1000")
    checks.attempt("old lists", lambda: old_lists(spark, checks, work))
    for partitioned in (True, False):
        copy_on_write(spark, checks, work, partitioned)
    checks.attempt("mor", lambda: merge_on_read(spark, checks, work))
