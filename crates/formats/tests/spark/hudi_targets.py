"""Hudi tables that hoglake writes, read and then changed by Spark with Hudi.

A folder of Parquet files is changed step by step and converted in place after every step. Spark's rows, count(*) and rows
of one partition are compared with what pyarrow reads; Hudi's own procedures list commits, archived ones included; at last
Hudi itself cleans and writes, and hoglake takes its table back.
"""

import json
import os

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import tables
from session import Refused, rows

clock = [1_700_000_000]


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


def files_of(folder):
    return [p for p in sorted(folder.rglob("*.parquet")) if ".hoodie" not in p.parts]


def truth(folder, partitioned):
    partitioning = ds.partitioning(flavor="hive") if partitioned else None
    files = [str(p) for p in files_of(folder)]
    return ds.dataset(files, format="parquet", partitioning=partitioning, partition_base_dir=str(folder)).to_table()


def load(spark, folder):
    return spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(folder))


def agree(spark, checks, name, folder, partitioned):
    def check():
        expected = truth(folder, partitioned)
        frame = load(spark, folder)
        checks.equal(f"{name}: rows", tables.rows(expected), rows(frame))
        checks.equal(f"{name}: count", expected.num_rows, frame.count())
        if partitioned:
            value = expected["k"][0].as_py()
            wanted = expected.filter(pa.compute.equal(expected["k"], value))
            checks.equal(f"{name}: one partition", tables.rows(wanted), rows(frame.where(frame.k == value)))

    checks.attempt(name, check)


def completed(folder, action):
    return sorted(p.name.split(".")[0] for p in (folder / ".hoodie").iterdir() if p.name.endswith(f".{action}"))


def procedures(spark, checks, label, folder):
    """Hudi's own words about the timeline that we keep and archive."""
    active = completed(folder, "replacecommit")
    checks.equal(f"{label}: commits stay few", True, len(active) <= 31)
    checks.equal(f"{label}: cleaned", True, len(completed(folder, "clean")) > 0)
    spark.sql(f"create table {label} using hudi location '{folder}'")

    def commits():
        found = sorted(r["commit_time"] for r in spark.sql(f"call show_commits(table => '{label}', limit => 100)").collect())
        checks.equal(f"{label}: show_commits", active, found)

    def archived():
        found = spark.sql(f"call show_archived_commits(table => '{label}', start_ts => '20000101', end_ts => '20990101', limit => 100)")
        times = sorted({r["commit_time"] for r in found.collect()})
        checks.equal(f"{label}: archived commits are listed and older", True, len(times) >= 20 and times[-1] < active[0])

    def by_sql():
        # Readers of Hudi before 1.0 list folders unless told; the files of other engines are only in the metadata table.
        spark.sql("set hoodie.metadata.enable=true")
        checks.equal(f"{label}: by SQL", load(spark, folder).count(), spark.sql(f"select count(*) from {label}").first()[0])

    for check in (commits, archived, by_sql):
        checks.attempt(f"{label}: {check.__name__}", check)


def give_key(folder):
    """A record key, as tables get it whose source has one; folders of Parquet files have none."""
    properties = folder / ".hoodie" / "hoodie.properties"
    if "recordkey" not in properties.read_text():
        with open(properties, "a") as file:
            file.write("hoodie.table.recordkey.fields=id\n")
        (folder / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)


def hudi_cleans(spark, checks, label, folder, partitioned):
    """Hudi's cleaner takes no file that the table still shows, and hoglake goes on."""
    before = rows(load(spark, folder))
    # Hudi 1 otherwise turns the table into its newest version, which only Hudi writes.
    spark.sql("set hoodie.write.auto.upgrade=false")
    spark.sql("set hoodie.write.table.version=6")

    def check():
        spark.sql(f"call run_clean(table => '{label}', clean_policy => 'KEEP_LATEST_COMMITS', retain_commits => 1)").collect()
        checks.equal(f"{label}: after Hudi's clean", before, rows(load(spark, folder)))

    checks.attempt(f"{label}: run_clean", check)
    write(folder, "k=p1/later.parquet" if partitioned else "later.parquet", 3000, extra=True)
    checks.convert("PARQUET", "HUDI", folder)
    checks.attempt(
        f"{label}: after both",
        lambda: checks.equal(f"{label}: after Hudi's clean and a sync", len(before) + 5, load(spark, folder).count()),
    )


def hudi_writes(spark, checks, label, folder, partitioned):
    """Hudi inserts into our table and drops a partition; hoglake then takes the table back.

    Hudi inserts only into tables with a record key, which folders of Parquet files have not; sources with a key get it.
    """
    give_key(folder)
    options = {
        "hoodie.table.name": label,
        "hoodie.datasource.write.operation": "insert",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.partitionpath.field": "k" if partitioned else "",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "true",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.write.auto.upgrade": "false",
        "hoodie.write.table.version": "6",
    }
    expected = truth(folder, partitioned).num_rows

    def insert():
        frame = load(spark, folder)
        own = [c for c in frame.columns if not c.startswith("_hoodie")]
        one = frame.select(own).limit(1).selectExpr("id + 5000 as id", *own[1:])
        one.write.format("hudi").options(**options).mode("append").save(str(folder))
        checks.equal(f"{label}: after an insert by Hudi", expected + 1, load(spark, folder).count())

    def drop():
        value = load(spark, folder).where("k is not null").first()["k"]
        left = load(spark, folder).where(f"k <> '{value}'").count()
        own = {**options, "hoodie.datasource.write.operation": "delete_partition"}
        own["hoodie.datasource.write.partitions.to.delete"] = f"k={value}"
        load(spark, folder).limit(0).write.format("hudi").options(**own).mode("append").save(str(folder))
        checks.equal(f"{label}: after a partition dropped by Hudi", left, load(spark, folder).count())

    checks.attempt(f"{label}: insert by Hudi", insert)
    if partitioned:
        checks.attempt(f"{label}: drop by Hudi", drop)
    # The files that Hudi wrote are no part of the source.
    for path in files_of(folder):
        if path.name.count("_") >= 2 and path.name.endswith(".parquet") and "-" in path.name:
            path.unlink()

    def back():
        checks.convert("PARQUET", "HUDI", folder, "--full")
        checks.equal(f"{label}: taken back", expected, load(spark, folder).count())

    checks.attempt(f"{label}: taken back", back)


def run(spark, checks, work, hudi):
    for partitioned in (True, False):
        label = "partitioned" if partitioned else "unpartitioned"
        folder = work / label
        name = (lambda f: f"k=p{len(f) % 3}/{f}") if partitioned else (lambda f: f)

        def step(what):
            checks.convert("PARQUET", "HUDI", folder)
            agree(spark, checks, f"{label} {what}", folder, partitioned)

        write(folder, name("a.parquet"), 0)
        step("first")
        write(folder, name("bb.parquet"), 10)
        step("appended")
        (folder / name("a.parquet")).unlink()
        step("removed")
        write(folder, name("a.parquet"), 20)
        step("came back")
        (folder / name("a.parquet")).unlink()
        step("removed again")
        for i in range(40):
            write(folder, name(f"f{i:02}.parquet"), 100 + 10 * i)
            if i % 7 == 5:
                (folder / name(f"f{i - 1:02}.parquet")).unlink()
            checks.convert("PARQUET", "HUDI", folder)
        agree(spark, checks, f"{label} after archiving", folder, partitioned)
        write(folder, name("wider.parquet"), 900, extra=True)
        checks.convert("PARQUET", "HUDI", folder)

        def wider():
            frame = load(spark, folder)
            checks.equal(f"{label} new column: count", 5 * len(files_of(folder)), frame.count())
            checks.equal(f"{label} new column: sum", 10.0, frame.selectExpr("sum(added)").first()[0])

        checks.attempt(f"{label} new column", wider)
        procedures(spark, checks, label, folder)
        hudi_cleans(spark, checks, label, folder, partitioned)
        hudi_writes(spark, checks, label, folder, partitioned)
    for key in ("hoodie.write.auto.upgrade", "hoodie.write.table.version"):
        spark.conf.unset(key)
