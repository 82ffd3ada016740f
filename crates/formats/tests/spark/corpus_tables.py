"""The tables of the corpus, converted: Delta to Hudi and Iceberg, Iceberg to Delta.

Rows are compared with what Spark reads from a Delta source where it can, otherwise with the corpus' own expectations. Where
the session is Hudi's, it does not read Delta, and where the source is Iceberg, its paths are of another machine: there the
rows are compared with what delta-rs, PyIceberg or DuckDB read from the source.
"""

import json
import shutil
from pathlib import Path

import tables
from pyspark.sql.types import ArrayType, MapType, StructType
from session import Refused, rows

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus"

# What Spark's reader of the source cannot read; the rows expected by the corpus, which other engines confirmed, decide.
SOURCE_UNREADABLE = {
    "duckdb-null_constraints_lists": "commits of several lines, which Spark's Delta reader takes for broken JSON",
    "krs-timestamp-partitioned-table": "a colon in a file's path, which Spark's Delta reader takes for a scheme",
    "krs-compacted-log-files-table": "log compaction files that say otherwise than the commits; Spark reads the commits only",
}

# Types that this Spark does not know; the table is written all the same.
TYPE_UNKNOWN = {"duckdb-variant_basic": "variant", "krs-void-column": "unknown"}


def expectation(source, case):
    return json.loads((CORPUS / source / case / "expected.json").read_text())


def converted(checks, work, source, target, *flags):
    """The tables of one format that hoglake converts: name, expectation, folder, report."""
    for case in sorted(p.parent.name for p in (CORPUS / source).glob("*/expected.json")):
        expected = expectation(source, case)
        if expected["expect"] != "read":
            continue
        folder = work / f"{case}-{target}"
        shutil.copytree(CORPUS / source / case / "table", folder)
        try:
            report = checks.convert(source.upper(), target.upper(), folder, *flags)
        except Refused as error:
            print(f"refused by hoglake: {case} from {source} to {target}: {str(error)[:160]}", flush=True)
        else:
            yield case, expected, folder, report
        shutil.rmtree(folder)


def hudis_own(spark, folder, columns, rows):
    """Whether Hudi writes a table all by itself, and reads it: 1.2.0 does not write bytes."""
    options = {
        "hoodie.table.name": folder.name, "hoodie.datasource.write.operation": "bulk_insert", "hoodie.metadata.enable": "true",
        "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
    }
    try:
        spark.range(0, rows, 1, 1).selectExpr("cast(id as int) id", *columns).write.format("hudi").options(**options).save(str(folder))
    except Exception as error:
        print(f"Hudi does not write {folder.name}: {str(error)[:200]}", flush=True)
        return False
    if rows == 0:
        shutil.copy(next((CORPUS / "delta" / "dat-nested_types" / "table").glob("*.parquet")), folder)
    return readable(spark, folder)


def readable(spark, folder):
    try:
        spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(folder)).collect()
        return True
    except Exception:
        return False


def as_arrow(value, ty):
    """A value of Spark as Arrow has it: maps are lists of pairs."""
    if value is None:
        return None
    if isinstance(ty, StructType):
        return {field.name: as_arrow(value[field.name], field.dataType) for field in ty.fields}
    if isinstance(ty, ArrayType):
        return [as_arrow(item, ty.elementType) for item in value]
    if isinstance(ty, MapType):
        return [[as_arrow(k, ty.keyType), as_arrow(v, ty.valueType)] for k, v in value.items()]
    return value


def same_rows(checks, name, frame, case, source, place):
    """Compares all rows with what other readers see in the source, or with those that the corpus has noted."""
    read = [as_arrow(row, frame.schema) for row in frame.collect()]
    read = sorted(json.dumps(tables.plain(row), sort_keys=True) for row in read)
    found = [tables.seen(f"{source} rows", str(place)), tables.seen("expected rows", str(CORPUS / source / case / "expected.json"))]
    known = [seen[reader] for seen in found for reader in ("delta-rs", "pyiceberg", "duckdb", "expected") if reader in seen]
    known = [these for these in known if len(these) == expectation(source, case)["rows"]]
    if known:
        checks.equal(f"{name}: rows", known[0], read if read not in known else known[0])
    else:
        print(f"counted only: {name}: {[seen.get('error') for seen in found]}", flush=True)


def to_hudi(spark, checks, work, hudi):
    # Where Hudi does not read what it has written itself, ours need be no better: bytes and shorts, alone and in lists, and
    # a table without files in whose folder lie files of others.
    own = {
        "bytes": hudis_own(spark, work / "bytes", ["cast(id as byte) b", "cast(id as short) s"], 5),
        "lists": hudis_own(spark, work / "lists", ["array(cast(id as short)) l"], 5),
        "empty": hudis_own(spark, work / "empty", [], 0),
    }
    print(f"Hudi reads its own: {own}", flush=True)
    for case, expected, folder, report in converted(checks, work, "delta", "hudi"):
        name = f"{case} from delta to hudi"
        narrow = any("enableVectorizedReader" in warning for warning in report.get("warnings", []))

        def check():
            frame = spark.read.format("hudi").option("hoodie.metadata.enable", "true").load(str(folder))
            checks.equal(f"{name}: count", expected["rows"], frame.count())
            own = ["`" + column.replace("`", "``") + "`" for column in frame.columns if not column.startswith("_hoodie_")]
            same_rows(checks, name, frame.select(*own), case, "delta", folder)

        if narrow:
            kind = "lists" if case == "dat-nested_types" else "bytes"
            checks.equal(f"{name}: read like Hudi's own {kind}", own[kind], readable(spark, folder))
            spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
        if expected["rows"] == 0 and not readable(spark, folder):
            checks.equal(f"{name}: read like Hudi's own empty table", own["empty"], False)
        else:
            checks.attempt(name, check)
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def sampled(expected):
    """The rows that the corpus expects, in the spelling of `rows`."""
    def plain(value):
        if isinstance(value, dict):
            return {k: plain(v) for k, v in value.items()}
        if isinstance(value, list):
            return [plain(v) for v in value]
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, str) and value.endswith("+00:00"):
            return value.removesuffix("+00:00") + ("" if "." in value else ".000000")
        return value

    return sorted(json.dumps(plain(row), sort_keys=True) for row in expected["sample_rows"])


def to_iceberg_and_delta(spark, checks, work, hudi):
    for case, expected, folder, report in converted(checks, work, "delta", "iceberg"):
        name = f"{case} from delta to iceberg"

        def check():
            frame = spark.read.format("iceberg").load(report["metadata-path"])
            checks.equal(f"{name}: count", expected["rows"], frame.count())
            if case in SOURCE_UNREADABLE:
                if expected["rows_complete"]:
                    checks.equal(f"{name}: rows", sampled(expected), rows(frame))
            else:
                checks.equal(f"{name}: rows", rows(spark.read.format("delta").load(str(folder))), rows(frame))

        if case in TYPE_UNKNOWN:
            try:
                check()
            except Exception as error:
                checks.equal(f"{name}: Spark names the type", True, TYPE_UNKNOWN[case] in str(error))
        else:
            checks.attempt(name, check)
    flags = ("--on-unsupported-deletes", "materialize")
    for case, expected, folder, _ in converted(checks, work, "iceberg", "delta", *flags):
        name = f"{case} from iceberg to delta"

        def check():
            frame = spark.read.format("delta").load(str(folder))
            checks.equal(f"{name}: count", expected["rows"], frame.count())
            newest = expected["state"].split("current metadata ")[1].split()[0].rstrip(",;")
            same_rows(checks, name, frame, case, "iceberg", folder / newest)

        checks.attempt(name, check)
