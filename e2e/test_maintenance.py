"""Maintenance as an operator sees it: files written by pyhoglake, rewritten by the server, read back by two engines."""

import json
import re
import subprocess
import time
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import FileType
from pyhoglake import ExpiredError, ops

import puffin
import samples
from lake import Lake, ok, refused
from readers import ROW_ID, key, multiset, read, with_arrow
from server import BINARY

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])


def rows_with_ids(table, filesystem, **when) -> dict[int, tuple]:
    """Row id to row, positional and explicit row ids alike."""
    found = {}
    for entry in table._namespace._catalog._client._http.get(
        f"/catalogs/{table._namespace._catalog.name}/namespaces/{table.namespace}/tables/{table.name}/scan", params=when
    ).json():
        file = entry["data_file"]
        read = pq.read_table(key(file["path"]), filesystem=filesystem)
        gone = set()
        if "delete_file" in entry:
            with filesystem.open_input_stream(key(entry["delete_file"]["path"])) as stream:
                gone = puffin.positions(stream.read())
        if file["explicit_row_ids"]:
            (field,) = [f for f in read.schema if f.name == "_hog_row_id"]
            assert field.metadata[b"PARQUET:field_id"] == b"2147483646" and not field.nullable
            ids = read.column("_hog_row_id").to_pylist()
            assert min(ids) == file["row_id_start"]
            read = read.drop_columns(["_hog_row_id"])
        else:
            ids = range(file["row_id_start"], file["row_id_start"] + read.num_rows)
        for position, (row_id, row) in enumerate(zip(ids, zip(*(c.to_pylist() for c in read.columns)))):
            if position not in gone:
                assert row_id not in found, f"row id {row_id} stands for two rows"
                found[row_id] = row
    return found


@pytest.fixture
def table(catalog):
    return catalog.create_namespace("ns").create_table("t", SCHEMA)


@pytest.fixture
def lake(api, catalog) -> Lake:
    return Lake(api, catalog.name)


def append(table, *ids, **kwargs) -> int:
    return table.append(pa.table({"id": list(ids), "note": [f"n{i}" for i in ids]}, schema=SCHEMA), **kwargs).snapshot_id


def compact(lake, **params) -> dict:
    return ok(lake.api.post(lake.url("maintenance", "compact"), params=params or None))


def test_rows_survive_compaction_with_their_ids(table, lake, filesystem):
    for n in range(6):
        append(table, *range(n * 10, n * 10 + 10))
    (first,) = [f for f in table.files() if f.row_id_start == 0]
    raw = puffin.file([0, 5], first.path)
    vector = lake.vector(first.data_file_id, 2, file_size_bytes=len(raw))
    with filesystem.open_output_stream(key(vector["path"])) as stream:
        stream.write(raw)
    before = lake.delete_rows(vector)
    wanted = rows_with_ids(table, filesystem)
    assert len(wanted) == 58

    result = compact(lake, batch=10)
    assert (result["groups_compacted"], result["files_in"], result["files_out"]) == (1, 6, 1)
    assert rows_with_ids(table, filesystem) == wanted
    (file,) = lake.files()
    assert file["explicit_row_ids"] and file["record_count"] == 58 and file["stats_state"] == "provided"
    assert rows_with_ids(table, filesystem, snapshot=before) == wanted, "the inputs are still there for older snapshots"
    assert table.changes(before).files == (), "the changefeed does not show it"
    (snapshot,) = ok(lake.get("snapshots", after=before))["snapshots"]
    assert [c["kind"] for c in snapshot["changes"]] == ["table_compacted"]

    append(table, 1000)
    compact(lake, batch=10)
    assert rows_with_ids(table, filesystem) == wanted | {60: (1000, "n1000")}, "twice is as good as once"


def test_every_type_survives_compaction(catalog, lake, filesystem):
    table = catalog.create_namespace("ns").create_table("t", samples.SCHEMA)
    data = samples.table()
    for _ in range(6):
        table.append(data)
    result = compact(lake, batch=10)
    assert result["groups_compacted"] == 1, result
    rows = with_arrow(table, filesystem)
    assert multiset(rows, row_ids=False) == multiset(data.to_pylist() * 6, row_ids=False)


def test_compacted_files_read_the_same_in_both_engines(catalog, lake, filesystem, duck):
    """Every type, deleted rows, a sort order, files of three vintages: row by row, row ids included, twice over."""
    table = catalog.create_namespace("ns").create_table("t", samples.SCHEMA)
    data = samples.table()
    order = [{"source_field_id": 2, "direction": "desc", "null_order": "nulls_last"}]
    ok(lake.api.post(lake.table_url("t", "alter"), json={"ops": [{"op": "set_sort_order", "sort_fields": order}]}))
    for _ in range(3):
        table.append(data)
    table.alter([ops.drop_column("c_boolean"), ops.add_column("c_late", "int")])
    later = data.drop_columns(["c_boolean"])
    late = pa.array(range(data.num_rows), pa.int32())
    table.append(later.append_column("c_late", late))
    table.alter([ops.promote_column("c_late", "long"), ops.promote_column("c_float", "double")])
    wider = later.set_column(
        later.schema.get_field_index("c_float"), "c_float", later.column("c_float").cast(pa.float64())
    )
    table.append(wider.append_column("c_late", late.cast(pa.int64())))
    for file, gone in zip(table.files()[1:3], ([0], [0, 1])):
        raw = puffin.file(gone, file.path)
        vector = lake.vector(file.data_file_id, len(gone), file_size_bytes=len(raw))
        with filesystem.open_output_stream(key(vector["path"])) as stream:
            stream.write(raw)
        lake.delete_rows(vector)
    wanted = multiset(read(table, filesystem, duck))
    assert len(wanted) == 5 * data.num_rows - 3

    def compacted() -> list[dict]:
        """The rows of the one file, by DuckDB and by pyarrow, with the row ids that it carries."""
        (file,) = table.files()
        names = {c.field_id: c.name for c in table.info().columns} | {2147483646: ROW_ID}
        arrow = pq.read_table(key(file.path), filesystem=filesystem)
        assert arrow.schema.names[-1] == "_hog_row_id"
        ids = [int(f.metadata[b"PARQUET:field_id"]) for f in arrow.schema]
        arrow = arrow.rename_columns([names[field] for field in ids])
        theirs = duck.execute(f"SELECT * FROM read_parquet('{file.path}')").to_arrow_table().rename_columns(arrow.schema.names)
        ints = arrow.column("c_int").to_pylist()
        assert ints == sorted(ints, key=lambda v: (v is None, -(v or 0))), "in the table's order"
        by_arrow, by_duck = (
            multiset([row | {"c_uuid": plain(row["c_uuid"])} for row in read.to_pylist()]) for read in (arrow, theirs)
        )
        assert by_arrow == by_duck
        return by_arrow

    assert compact(lake, batch=10)["files_in"] == 5
    assert compacted() == wanted
    for _ in range(4):
        table.append(wider.append_column("c_late", late.cast(pa.int64())).slice(0, 1))
    wanted = multiset(read_all(table, filesystem))
    assert compact(lake, batch=10)["files_in"] == 5, "a file that has row ids of its own, and four that have none"
    assert compacted() == wanted


def plain(value):
    """The sixteen bytes of a UUID, however a reader shows it; anything else as it is."""
    if isinstance(value, str) and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", value):
        value = uuid.UUID(value)
    return getattr(value, "bytes", value)


def read_all(table, filesystem) -> list[dict]:
    """The live rows of files with and without row ids of their own, by column name."""
    names = [c.name for c in table.info().columns]
    rows = rows_with_ids(table, filesystem)
    return [dict(zip(names, map(plain, row))) | {ROW_ID: row_id} for row_id, row in rows.items()]


def test_deferred_statistics_arrive(table, lake):
    append(table, 1, 2, 3, deferred_stats=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and lake.files()[0]["stats_state"] == "pending":
        time.sleep(0.2)
    (entry,) = lake.scan(stats="true")
    assert entry["data_file"]["stats_state"] == "provided"
    by_id = {s["field_id"]: s for s in entry["column_stats"]}
    assert (by_id[1]["lower_bound"], by_id[1]["upper_bound"]) == ("AQAAAAAAAAA=", "AwAAAAAAAAA=")
    table.alter([ops.rename_column("note", "remark")])


def test_expiry_and_cleanup(server, table, lake, catalog, filesystem):
    first, *_ = [append(table, n) for n in range(1, 7)]
    assert compact(lake, batch=10)["files_in"] == 6
    assert catalog.expire().snapshots_expired == 0, "no retention, no expiry"
    catalog.set_retention(1)
    time.sleep(1.2)
    head = append(table, 7)
    paths = {f.path for f in table.files(snapshot=first)}
    dry = ok(lake.api.post(lake.url("maintenance", "expire"), params={"dry_run": "true"}))
    assert dry["snapshots_expired"] > 0 and lake.get("options").json()["earliest_snapshot_id"] == 0
    expired = catalog.expire()
    assert expired.snapshots_expired == dry["snapshots_expired"] == expired.new_earliest_snapshot_id
    floor = expired.new_earliest_snapshot_id
    assert first < floor <= head and expired.data_files_queued == 6
    assert {r["path"] for r in ok(lake.get("maintenance", "removals"))["removals"]} >= paths

    # Below the floor everything says so, with the floor and its time.
    time_of_floor = ok(lake.get())["earliest_snapshot_time"]
    reads = [(), ("scan",), ("files",)]
    for read in reads:
        body = refused(lake.get_table("t", *read, snapshot=floor - 1), 410, "expired", str(floor))
        assert time_of_floor[:19] in body["detail"]
        ok(lake.get_table("t", *read, snapshot=floor))
    refused(lake.get_table("t", "changes", from_snapshot=floor - 2), 410, "expired", str(floor))
    ok(lake.get_table("t", "changes", from_snapshot=floor - 1))
    refused(lake.get("namespaces", snapshot=floor - 1), 410, "expired")
    stale = {"read_snapshot": floor - 1, "appends": [lake.appends(lake.file())]}
    refused(lake.commit(**stale), 410, "expired", str(floor))
    uuid = table.table_uuid
    refused(lake.api.put(lake.url("consumers", "c", "offsets", uuid), json={"snapshot_id": floor - 1}), 410, "expired")
    with pytest.raises(ExpiredError):
        table.info(snapshot=1)
    again = {"appends": [lake.appends(lake.file(path=sorted(paths)[0]))]}
    refused(lake.commit(**again), 409, "commit_conflict", sorted(paths)[0])
    assert [row["id"] for row in sorted(rows_with_ids_as_dicts(table, filesystem), key=lambda r: r["id"])] == list(range(1, 8))
    assert [s["snapshot_id"] for s in ok(lake.get("snapshots", after=-1))["snapshots"]][0] == floor

    # The objects go, each with a line in the audit trail; what is live stays.
    ok(lake.api.post(lake.url("maintenance", "cleanup")))
    settled = {r["path"]: r["state"] for r in ok(lake.get("maintenance", "removals"))["removals"]}
    assert len(settled) == 6 and set(settled.values()) == {"removed"}
    assert {f.type for f in filesystem.get_file_info([key(path) for path in settled])} == {FileType.NotFound}
    audit = [json.loads(line) for line in (server.state / "state" / "audit.jsonl").read_text().splitlines()]
    deleted = [line["object"] for line in audit if (line["action"], line.get("catalog")) == ("file_deleted", catalog.name)]
    assert sorted(deleted) == sorted(settled)
    assert len(rows_with_ids_as_dicts(table, filesystem)) == 7


def rows_with_ids_as_dicts(table, filesystem) -> list[dict]:
    return [{"id": row[0], ROW_ID: row_id} for row_id, row in rows_with_ids(table, filesystem).items()]


def test_a_consumer_holds_expiry_back(table, lake, catalog):
    made = [append(table, n) for n in range(4)]
    catalog.commit_offset("slow", table.table_uuid, made[1])
    catalog.set_retention(1)
    time.sleep(1.2)
    append(table, 99)
    result = catalog.expire()
    assert result.new_earliest_snapshot_id <= made[1] + 1
    assert result.floored_by_consumer == "slow"
    ok(lake.get_table("t", "changes", from_snapshot=made[1]))
    catalog.set_retention(1, consumer_floor=False)
    assert catalog.expire().new_earliest_snapshot_id > made[1] + 1


BATCHES = [("0", 422, "validation"), ("-1", 422, "validation"), ("lots", 400, "bad_request"), (str(2**63), 400, "bad_request")]


@pytest.mark.parametrize(("batch", "status", "error"), BATCHES)
@pytest.mark.parametrize("task", ["expire", "cleanup", "compact"])
def test_batches(bare, task, batch, status, error):
    refused(bare.api.post(bare.url("maintenance", task), params={"batch": batch}), status, error, "batch")


@pytest.mark.parametrize("task", ["expire", "cleanup", "compact"])
@pytest.mark.parametrize("params", [{"dry-run": "true"}, {"dryrun": "true"}, {"batches": 1}])
def test_parameters_that_nobody_knows(bare, task, params):
    """One that is misspelt must not turn a preview into the task itself."""
    refused(bare.api.post(bare.url("maintenance", task), params=params), 400, "bad_request", *params)


@pytest.mark.parametrize("arguments", [("hydrate", "--dry-run"), ("verify", "--dry-run"), ("compact", "--deep")])
def test_flags_that_a_command_does_not_know(server, bare, arguments):
    command = [BINARY, arguments[0], bare.name, arguments[1], "--server", server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and arguments[1] in done.stderr, done


@pytest.mark.parametrize("task", ["expire", "cleanup", "compact", "verify", "hydrate", "rehydrate"])
def test_unknown_catalog(api, task):
    refused(api.post(f"/catalogs/absent/maintenance/{task}"), 404, "not_found", "absent")


def test_verify_names_its_checks(lake):
    report = lake.verify()
    names = [c["check"] for c in report["checks"]]
    assert names[:6] == ["row_id_tiling", "delete_vectors", "orphans", "removal_queue", "snapshot_density", "next_row_id"]
    deep = lake.verify(deep="true")
    assert len(deep["checks"]) >= 6


SCOPES = [
    ({"namespace": "ns"}, 422, "validation"),
    ({"table": "t"}, 422, "validation"),
    ({"namespace": "absent", "table": "t"}, 404, "not_found"),
    ({"namespace": "ns", "table": "absent"}, 404, "not_found"),
]


@pytest.mark.parametrize(("params", "status", "error"), SCOPES)
def test_rehydrate_scope(table, lake, params, status, error):
    refused(lake.api.post(lake.url("maintenance", "rehydrate"), params=params), status, error)


PARTITIONS = [
    ({"table": "t"}, 422, "validation"),
    ({"limit": 0}, 422, "validation"),
    ({"limit": "x"}, 400, "bad_request"),
    ({"namespace": "absent"}, 404, "not_found"),
    ({"namespace": "ns", "table": "absent"}, 404, "not_found"),
    ({"limit": 99999}, 200, None),
]


@pytest.mark.parametrize(("params", "status", "error"), PARTITIONS)
def test_partition_statistics_parameters(table, lake, params, status, error):
    response = lake.get("stats", "partitions", **params)
    ok(response) if status == 200 else refused(response, status, error)


def test_partition_statistics(table, lake):
    table.alter([ops.set_partition_spec([ops.partition_field(2, "identity")])])
    for note, files in (("a", 3), (None, 2), ("b", 1)):
        for _ in range(files):
            lake.append(lake.file(1, partition_values=[note]))
    report = ok(lake.get("stats", "partitions"))
    got = [(p["partition_values"][0]["value"], p["file_count"], p["debt_score"]) for p in report["partitions"]]
    assert got == [("a", 3, 3), (None, 2, 2), ("b", 1, 1)]
    assert report["partitions"][0]["partition_values"][0]["field"] == "note"
    assert (report["truncated"], report["stale_spec_groups"]) == (False, 0)
    assert ok(lake.get("stats", "partitions", limit=2))["truncated"] is True
    table.alter([ops.set_partition_spec([])])
    assert ok(lake.get("stats", "partitions"))["stale_spec_groups"] == 3


LEDGERS = [
    ("removals", {"state": "bogus"}, 422, "validation"),
    ("removals", {"state": "queued"}, 200, None),
    ("removals", {"limit": 0}, 422, "validation"),
    ("removals", {"limit": "x"}, 400, "bad_request"),
    ("removals", {"before": "x"}, 400, "bad_request"),
    ("removals", {"limit": 99999}, 200, None),
    ("runs", {"limit": 0}, 422, "validation"),
    ("runs", {"before": 1}, 200, None),
    ("runs", {"before": "x"}, 400, "bad_request"),
]


@pytest.mark.parametrize(("ledger", "params", "status", "error"), LEDGERS)
def test_ledger_parameters(bare, ledger, params, status, error):
    response = bare.get("maintenance", ledger, **params)
    ok(response) if status == 200 else refused(response, status, error)


def test_the_run_ledger_tells_what_was_done(bare):
    for task in ("expire", "cleanup", "compact"):
        ok(bare.api.post(bare.url("maintenance", task)))
    first = ok(bare.get("maintenance", "runs", limit=2))
    assert first["has_more"] is True
    rest = ok(bare.get("maintenance", "runs", before=first["runs"][-1]["run_id"]))
    runs = first["runs"] + rest["runs"]
    ids = [run["run_id"] for run in runs]
    assert ids == sorted(ids, reverse=True) and len(set(ids)) == len(ids)
    assert {"expire", "cleanup", "compact"} <= {run["task"] for run in runs}
    assert {run["outcome"] for run in runs} <= {"done", "running"}
