"""Row-level deletes that Spark wrote, and those that hoglake writes, read by Spark.

Iceberg tables of version 3 (deletion vectors) and 2 (position deletes), and Delta tables with deletion vectors, changed by
Spark's DELETE, UPDATE and MERGE, and converted to the other format after each. What Spark reads from the source is compared
with what Spark, PyIceberg, delta-rs and DuckDB read from the target.
"""

from session import rows

COLUMNS = "id int, k string, name string, price decimal(9,2), at timestamp"
VALUES = """select cast(id as int) as id, concat('k', id % 2) as k, if(id % 5 = 0, null, concat('n', id)) as name,
    cast(id / 4 as decimal(9,2)) as price, timestamp_micros(1700000000000001 + id * 1000003) as at from range({}, {}, 1, 1)"""


class Table:
    def __init__(self, spark, checks, folder, name, source, target, flags=()):
        self.spark, self.checks, self.folder, self.name = spark, checks, folder, name
        self.source, self.target, self.flags = source, target, flags

    def step(self, what, *statements, expect=None):
        label = f"{self.name} {what}"

        def check():
            for statement in statements:
                self.spark.sql(statement)
            expected = rows(self.spark.sql(f"select * from {self.name}"))
            report = self.checks.convert(self.source, self.target, self.folder, *self.flags)
            if expect:
                self.checks.equal(f"{label}: how", expect, report["plan"])
            path = report["metadata-path"] if self.target == "ICEBERG" else str(self.folder)
            read = self.spark.read.format(self.target.lower()).load(path)
            self.checks.equal(f"{label} as {self.target} by Spark", expected, rows(read))
            self.checks.equal(f"{label} as {self.target} by Spark: count", len(expected), read.count())
            self.checks.others_agree(label, expected, report, self.target)

        self.checks.attempt(label, check)


def history(table, merge=True):
    name = table.name.replace("`", "")
    table.step("filled", f"insert into {table.name} {VALUES.format(0, 30)}")
    table.step("deleted", f"delete from {table.name} where id % 7 = 3", expect="incremental")
    table.step("deleted more", f"delete from {table.name} where id in (4, 5, 6)", expect="incremental")
    table.step("updated", f"update {table.name} set price = price + 100 where id between 20 and 24", expect="incremental")
    table.step("appended", f"insert into {table.name} {VALUES.format(100, 110)}", expect="incremental")
    if merge:
        table.step(
            "merged",
            f"""merge into {table.name} t using ({VALUES.format(105, 115)}) s on t.id = s.id
                when matched and s.id % 2 = 0 then delete when matched then update set *
                when not matched then insert *""",
            expect="incremental",
        )
    table.step("emptied one key", f"delete from {table.name} where k = 'k0'", expect="incremental")
    table.step("refilled", f"insert into {table.name} {VALUES.format(200, 204)}", expect="incremental")
    table.step("nothing new", expect="no-change")


def run(spark, checks, work, hudi):
    warehouse = work / "iceberg"
    spark.conf.set("spark.sql.catalog.ice", "org.apache.iceberg.spark.SparkCatalog")
    spark.conf.set("spark.sql.catalog.ice.type", "hadoop")
    spark.conf.set("spark.sql.catalog.ice.warehouse", str(warehouse))
    for version in (2, 3):
        for partitioned in (True, False):
            name = f"v{version}_{'partitioned' if partitioned else 'plain'}"
            by = "partitioned by (k)" if partitioned else ""
            modes = ", ".join(f"'write.{m}.mode'='merge-on-read'" for m in ("delete", "update", "merge"))
            spark.sql(
                f"create table ice.db.{name} ({COLUMNS}) using iceberg {by} "
                f"tblproperties ('format-version'='{version}', {modes})"
            )
            history(Table(spark, checks, warehouse / "db" / name, f"ice.db.{name}", "ICEBERG", "DELTA"))
    for version in (2, 3):
        for partitioned in (True, False):
            name = f"delta_v{version}_{'partitioned' if partitioned else 'plain'}"
            folder = work / name
            by = "partitioned by (k)" if partitioned else ""
            spark.sql(
                f"create table delta.`{folder}` ({COLUMNS}) using delta {by} "
                "tblproperties ('delta.enableDeletionVectors'='true')"
            )
            flags = ("--iceberg-format-version", str(version))
            history(Table(spark, checks, folder, f"delta.`{folder}`", "DELTA", "ICEBERG", flags))
