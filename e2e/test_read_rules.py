"""Reads: snapshots and moments, the changefeed's window, orders, ETags, pinned listings."""

import re
from datetime import datetime, timedelta, timezone

import pytest

from lake import NO_SUCH_UUID, Lake, column, ok, refused

READS = {
    "getTable": lambda lake, **params: lake.get_table(**params),
    "planScan": lambda lake, **params: lake.get_table("t", "scan", **params),
    "listFiles": lambda lake, **params: lake.get_table("t", "files", **params),
}
LISTINGS = {
    "listNamespaces": lambda lake, **params: lake.get("namespaces", **params),
    "listTables": lambda lake, **params: lake.get("namespaces", "ns", "tables", **params),
}


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.fixture(scope="module")
def five(api) -> Lake:
    """Head 5: namespace, table, three appends."""
    made = Lake(api, "read-rules").create()
    made.namespace()
    made.table()
    for _ in range(3):
        made.append()
    return made


@pytest.fixture(scope="module")
def times(five) -> dict[int, datetime]:
    snapshots = ok(five.get("snapshots", after=-1))["snapshots"]
    return {s["snapshot_id"]: instant(s["snapshot_time"]) for s in snapshots}


SNAPSHOTS = [
    ({"snapshot": 5}, 200, None),
    ({"snapshot": 2}, 200, None),
    ({"snapshot": 6}, 422, "validation"),
    ({"snapshot": -1}, 422, "validation"),
    ({"snapshot": 2**62}, 422, "validation"),
    ({"snapshot": 2**63 - 1}, 422, "validation"),
    ({"snapshot": 2**63}, 400, "bad_request"),
    ({"snapshot": 1, "at_timestamp": "2026-01-01T00:00:00Z"}, 422, "validation"),
    ({"at_timestamp": "1999-01-01T00:00:00Z"}, 410, "expired"),
    ({"at_timestamp": "0001-01-01T00:00:00Z"}, 410, "expired"),
    ({"at_timestamp": "9999-12-31T23:59:59.999999Z"}, 200, None),
    ({"at_timestamp": "2999-01-01T00:00:00-05:30"}, 200, None),
    ({"unknown": "parameter"}, 200, None),
]


@pytest.mark.parametrize(("params", "status", "error"), SNAPSHOTS, ids=lambda v: str(v))
@pytest.mark.parametrize("read", READS | LISTINGS)
def test_when(five, read, params, status, error):
    response = (READS | LISTINGS)[read](five, **params)
    if status == 200:
        ok(response, 200)
    else:
        refused(response, status, error)


@pytest.mark.parametrize("read", READS)
def test_before_the_table_was_there(five, read):
    for snapshot in (0, 1):
        refused(READS[read](five, snapshot=snapshot), 404, "not_found", "t")


@pytest.mark.parametrize("read", READS)
def test_a_catalog_comes_before_a_snapshot_and_a_snapshot_before_a_table(five, api, read):
    refused(READS[read](Lake(api, "absent"), snapshot=-1), 404, "not_found", "absent")
    path = {"getTable": (), "planScan": ("scan",), "listFiles": ("files",)}[read]
    refused(five.get_table("absent", *path, snapshot=6), 422, "validation")
    refused(five.get_table("absent", *path), 404, "not_found", "absent")
    refused(five.get_table("t", *path, namespace="absent"), 404, "not_found", "absent")


@pytest.mark.parametrize("read", READS)
def test_each_snapshot_by_its_own_time(five, times, read):
    for snapshot in (2, 3, 4, 5):
        wanted = ok(READS[read](five, snapshot=snapshot))
        moment = times[snapshot]
        spellings = [
            moment.isoformat(),
            moment.isoformat().replace("+00:00", "Z"),
            moment.astimezone(timezone(timedelta(hours=2))).isoformat(),
            moment.astimezone(timezone(-timedelta(hours=9, minutes=30))).isoformat(),
        ]
        for spelling in spellings:
            assert ok(READS[read](five, at_timestamp=spelling)) == wanted, spelling
        just_before = (moment - timedelta(microseconds=1)).isoformat()
        if times[snapshot - 1] < moment and snapshot > 2:
            assert ok(READS[read](five, at_timestamp=just_before)) == ok(READS[read](five, snapshot=snapshot - 1))


def test_a_raw_plus_is_forgiven(five, times):
    text = times[3].isoformat()
    assert "+" in text
    response = five.api.get(f"{five.table_url()}?at_timestamp={text}")
    assert ok(response) == ok(five.get_table(snapshot=3))


def test_resolve(five, times):
    for snapshot, moment in times.items():
        got = ok(five.get("snapshots", "resolve", at_timestamp=moment.isoformat()))
        assert (got["snapshot_id"], instant(got["snapshot_time"])) == (snapshot, moment)
    later = (times[5] + timedelta(days=1)).isoformat()
    assert ok(five.get("snapshots", "resolve", at_timestamp=later))["snapshot_id"] == 5
    refused(five.get("snapshots", "resolve", at_timestamp="1999-01-01T00:00:00Z"), 410, "expired")
    refused(five.get("snapshots", "resolve", at_timestamp="2026-09-05T00:00:00"), 400, "bad_request", "at_timestamp")
    refused(five.get("snapshots", "resolve"), 400, "bad_request", "at_timestamp")


def test_times_are_utc_with_at_most_six_digits(five):
    pattern = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")
    snapshots = ok(five.get("snapshots", after=-1))["snapshots"]
    assert all(pattern.match(s["snapshot_time"]) for s in snapshots)
    times = [instant(s["snapshot_time"]) for s in snapshots]
    assert times == sorted(times)


# The changefeed.

CHANGES = [
    ({"from_snapshot": 0}, 200, [3, 4, 5]),
    ({"from_snapshot": 2}, 200, [3, 4, 5]),
    ({"from_snapshot": 3}, 200, [4, 5]),
    ({"from_snapshot": 2, "to_snapshot": 4}, 200, [3, 4]),
    ({"from_snapshot": 4, "to_snapshot": 4}, 200, []),
    ({"from_snapshot": 5}, 200, []),
    ({"from_snapshot": 0, "to_snapshot": 5}, 200, [3, 4, 5]),
    ({"from_snapshot": -1, "to_snapshot": 5}, 422, "validation"),
    ({"from_snapshot": 4, "to_snapshot": 3}, 422, "validation"),
    ({"from_snapshot": 0, "to_snapshot": 99}, 422, "validation"),
    ({"from_snapshot": 0, "to_snapshot": -1}, 422, "validation"),
    ({"from_snapshot": 6}, 422, "validation"),
    ({"from_snapshot": 2**62}, 422, "validation"),
    ({"from_snapshot": 0, "to_snapshot": 1}, 404, "not_found"),
    ({}, 400, "bad_request"),
    ({"to_snapshot": 3}, 400, "bad_request"),
    ({"from_snapshot": 2**63}, 400, "bad_request"),
    ({"from_snapshot": 0, "to_snapshot": "x"}, 400, "bad_request"),
]


@pytest.mark.parametrize(("params", "status", "result"), CHANGES, ids=lambda v: str(v))
def test_changes(five, params, status, result):
    response = five.get_table("t", "changes", **params)
    if status == 200:
        plan = ok(response, 200)
        assert [f["begin_snapshot"] for f in plan["files"]] == result
        assert plan["delete_files"] == []
        assert (plan["from_snapshot"], plan["to_snapshot"]) == (params["from_snapshot"], params.get("to_snapshot", 5))
    else:
        refused(response, status, result)


def test_changes_follow_the_incarnation_at_the_end(lake):
    first = ok(lake.get_table())["table_uuid"]
    lake.append()
    dropped_at = ok(lake.delete("namespaces", "ns", "tables", "t"))["snapshot_id"]
    second = lake.table()["table_uuid"]
    lake.append(lake.file(2))
    old = ok(lake.get_table("t", "changes", from_snapshot=0, to_snapshot=dropped_at - 1))
    new = ok(lake.get_table("t", "changes", from_snapshot=0))
    assert (old["table_uuid"], [f["record_count"] for f in old["files"]]) == (first, [1])
    assert (new["table_uuid"], [f["record_count"] for f in new["files"]]) == (second, [2])
    refused(lake.get_table("t", "changes", from_snapshot=0, to_snapshot=dropped_at), 404, "not_found")


def test_changes_know_a_renamed_table_by_its_name_at_the_end(lake):
    lake.append()
    renamed_at = ok(lake.alter({"op": "rename_table", "new_name": "u"}))["snapshot_id"]
    lake.append(table="u")
    assert len(ok(lake.get_table("u", "changes", from_snapshot=0))["files"]) == 2
    assert len(ok(lake.get_table("t", "changes", from_snapshot=0, to_snapshot=renamed_at - 1))["files"]) == 1
    refused(lake.get_table("t", "changes", from_snapshot=0), 404, "not_found")


def test_deletions_are_fed(lake):
    lake.append(lake.file(10), lake.file(10))
    start = lake.head()
    made = [lake.delete_rows(lake.vector(1, n)) for n in (1, 2, 3)]
    made.append(lake.delete_rows(lake.vector(2, 5)))
    plan = ok(lake.get_table("t", "changes", from_snapshot=start))
    assert [(d["begin_snapshot"], d["delete_count"]) for d in plan["delete_files"]] == list(zip(made, (1, 2, 3, 5)))
    assert plan["files"] == []
    part = ok(lake.get_table("t", "changes", from_snapshot=made[0], to_snapshot=made[2]))
    assert [d["begin_snapshot"] for d in part["delete_files"]] == made[1:3]


# Orders.


def test_orders(lake):
    lake.append(lake.file(5), lake.file(0), lake.file(5))
    lake.append(lake.file(1))
    files = lake.files()
    assert [f["data_file_id"] for f in files] == [1, 2, 3, 4]
    assert files == sorted(files, key=lambda f: (f["begin_snapshot"], f["row_id_start"], f["data_file_id"]))
    scan = [e["data_file"] for e in lake.scan()]
    assert scan == sorted(files, key=lambda f: (f["row_id_start"], f["data_file_id"]))
    for name in ("zeta", "Alpha", "alpha", "_x", "a-b", "a_b"):
        lake.table(name)
        lake.namespace(name)
    for url in (("namespaces",), ("namespaces", "ns", "tables")):
        names = [x["name"] for x in ok(lake.get(*url))]
        assert names == sorted(names), "ordered by code point"


# Listings at a snapshot.


def test_listings_at_a_snapshot(bare):
    bare.namespace("a")
    bare.namespace("ns")
    bare.table("t1")
    bare.table("t2")
    ok(bare.alter({"op": "rename_table", "new_name": "t3"}, table="t1"))
    ok(bare.delete("namespaces", "ns", "tables", "t2"))
    at = {n: [t["name"] for t in ok(bare.get("namespaces", "ns", "tables", snapshot=n))] for n in range(2, 7)}
    assert at == {2: [], 3: ["t1"], 4: ["t1", "t2"], 5: ["t2", "t3"], 6: ["t3"]}
    assert [x["name"] for x in ok(bare.get("namespaces", snapshot=0))] == []
    assert [x["name"] for x in ok(bare.get("namespaces", snapshot=1))] == ["a"]
    assert [x["name"] for x in ok(bare.get("namespaces"))] == ["a", "ns"]
    refused(bare.get("namespaces", "ns", "tables", snapshot=1), 404, "not_found", "ns")
    refused(bare.get("namespaces", "absent", "tables"), 404, "not_found", "absent")
    refused(bare.get("namespaces", "absent", "views"), 404, "not_found", "absent")


# Totals, statistics, ETags.


def test_a_table_without_totals(lake):
    lake.append(lake.file(7))
    whole = ok(lake.get_table())
    light = ok(lake.get_table(totals="false"))
    assert ok(lake.get_table(totals="true")) == whole
    assert {k: v for k, v in whole.items() if k not in ("record_count", "file_count", "file_size_bytes")} == light


def test_statistics_come_only_when_asked_for(lake):
    stats = [{"field_id": 1, "value_count": 1, "null_count": 0, "lower_bound": "AQAAAAAAAAA=", "upper_bound": "AQAAAAAAAAA="}]
    lake.append(lake.file(1, column_stats=stats), lake.file(1, column_stats=[]), lake.file(1, column_stats=...))
    assert all("column_stats" not in e for e in lake.scan())
    known, empty, pending = (e.get("column_stats") for e in lake.scan(stats="true"))
    assert known == stats and not empty and pending is None
    assert all("column_stats" not in e for e in lake.scan(stats="false"))


PINNED = {
    "getTable": ("t",),
    "planScan": ("t", "scan"),
    "listFiles": ("t", "files"),
}


@pytest.mark.parametrize("read", PINNED)
def test_a_pinned_read_can_be_cached(lake, read):
    snapshot = lake.append()
    first = lake.get_table(*PINNED[read], snapshot=snapshot)
    etag = first.headers["etag"]
    url = lake.table_url(*PINNED[read])
    lake.append()
    for given in (etag, f'"other", {etag}', f"W/{etag.removeprefix('W/')}", "*"):
        again = lake.api.get(url, params={"snapshot": snapshot}, headers={"If-None-Match": given})
        assert (again.status_code, again.content) == (304, b""), given
        assert again.headers["etag"] == etag
    fresh = lake.api.get(url, params={"snapshot": snapshot}, headers={"If-None-Match": '"other"'})
    assert fresh.json() == first.json()
    moved = lake.api.get(url, params={"snapshot": snapshot + 1}, headers={"If-None-Match": etag})
    assert moved.status_code == 200 and moved.headers["etag"] != etag
    unpinned = lake.api.get(url, headers={"If-None-Match": etag})
    assert unpinned.status_code == 200


def test_etags_tell_questions_apart(lake):
    snapshot = lake.append()
    etags = [
        lake.get_table("t", "scan", snapshot=snapshot, **params).headers["etag"]
        for params in ({}, {"stats": "true"}, {"filter": "id = 1"}, {"filter": "id = 2"})
    ]
    etags.append(lake.get_table("t", "files", snapshot=snapshot).headers["etag"])
    assert len(set(etags)) == len(etags)


def test_a_closed_window_can_be_cached(lake):
    snapshot = lake.append()
    params = {"from_snapshot": 0, "to_snapshot": snapshot}
    first = lake.get_table("t", "changes", **params)
    url = lake.table_url("t", "changes")
    again = lake.api.get(url, params=params, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


# Consumers.


def test_consumers_are_listed_with_names(lake):
    uuid = ok(lake.get_table())["table_uuid"]
    lake.table("b")
    other = ok(lake.get_table("b"))["table_uuid"]
    head = lake.head()
    for consumer, table in (("z", uuid), ("a", other), ("a", uuid)):
        ok(lake.api.put(lake.url("consumers", consumer, "offsets", table), json={"snapshot_id": head}))
    ok(lake.alter({"op": "rename_table", "new_name": "renamed"}, table="b"))
    ok(lake.delete("namespaces", "ns", "tables", "renamed"))
    lake.table("renamed")
    listed = ok(lake.get("consumers"))["consumers"]
    shape = [(c["consumer_id"], [(o["namespace"], o["table_name"], o["table_dropped"]) for o in c["offsets"]]) for c in listed]
    assert shape == [("a", [("ns", "renamed", True), ("ns", "t", False)]), ("z", [("ns", "t", False)])]
    ok(lake.api.put(lake.url("consumers", "a", "offsets", other), json={"snapshot_id": head + 1}))


OFFSETS = [
    ("c", "uuid", -1, 422, "validation"),
    ("c", "uuid", 99, 422, "validation"),
    ("c", NO_SUCH_UUID, 1, 422, "validation"),
    ("c" * 129, "uuid", 1, 422, "validation"),
    ("publication:x", "uuid", 1, 422, "validation"),
    ("c", "not-a-uuid", 1, 400, "bad_request"),
    ("c", "uuid", "1", 400, "bad_request"),
    ("c\0", "uuid", 1, 422, "validation"),
]


@pytest.mark.parametrize(("consumer", "uuid", "snapshot", "status", "error"), OFFSETS)
def test_offset_refused(five, consumer, uuid, snapshot, status, error):
    uuid = ok(five.get_table())["table_uuid"] if uuid == "uuid" else uuid
    response = five.api.put(five.url("consumers", consumer, "offsets", uuid), json={"snapshot_id": snapshot})
    refused(response, status, error)


def test_offsets_that_are_not_there(five):
    uuid = ok(five.get_table())["table_uuid"]
    refused(five.get("consumers", "nobody", "offsets", uuid), 404, "not_found")
    refused(five.get("consumers", "nobody", "offsets", NO_SUCH_UUID), 404, "not_found")
    refused(five.get("consumers", "nobody", "offsets", "not-a-uuid"), 400, "bad_request")
    assert ok(five.get("consumers", "nobody", "offsets")) == []


# Options.

OPTIONS = [
    ({}, 200, {}),
    ({"snapshot_retention_seconds": 1}, 200, {"snapshot_retention_seconds": 1}),
    ({"snapshot_retention_seconds": 2**53}, 200, {"snapshot_retention_seconds": 2**53}),
    ({"snapshot_retention_seconds": None}, 200, {}),
    ({"consumer_floor": False}, 200, {"consumer_floor": False}),
    ({"snapshot_retention_seconds": 0}, 422, "validation"),
    ({"snapshot_retention_seconds": -5}, 422, "validation"),
    ({"consumer_floor": None}, 400, "bad_request"),
    ({"consumer_floor": "true"}, 400, "bad_request"),
    ({"snapshot_retention_seconds": "1"}, 400, "bad_request"),
    ({"snapshot_retention": 1}, 400, "bad_request"),
    ({"earliest_snapshot_id": 1}, 400, "bad_request"),
]


@pytest.mark.parametrize(("body", "status", "result"), OPTIONS, ids=lambda v: str(v))
def test_options(bare, body, status, result):
    before = {"consumer_floor": True, "earliest_snapshot_id": 0}
    assert ok(bare.get("options")) == before
    response = bare.api.patch(bare.url("options"), json=body)
    if status == 200:
        assert ok(response) == before | result == ok(bare.get("options"))
    else:
        refused(response, status, result)
        assert ok(bare.get("options")) == before
    assert bare.head() == 0


def test_an_absent_option_stays(bare):
    bare.api.patch(bare.url("options"), json={"snapshot_retention_seconds": 60, "consumer_floor": False})
    ok(bare.api.patch(bare.url("options"), json={"consumer_floor": True}))
    assert ok(bare.get("options"))["snapshot_retention_seconds"] == 60


# Data paths.

OVERLAPS = ["s3://lake/op/a", "s3://lake/op/a/", "s3://lake/op/a/b", "s3://lake/op", "s3://lake/op/", "s3://lake"]
APART = ["s3://lake/op/ab", "s3://lake/op-b", "s3://other-bucket/op/a"]


def test_data_paths_do_not_overlap(api):
    Lake(api, "overlap", "s3://lake/op/a").create()
    for n, data_path in enumerate(OVERLAPS):
        refused(api.post("/catalogs", json={"name": f"overlap{n}", "data_path": data_path}), 409, "already_exists", "overlap")
        refused(api.get(f"/catalogs/overlap{n}"), 404, "not_found")
    for n, data_path in enumerate(APART):
        Lake(api, f"apart{n}", data_path).create()
    for blank in ("", "   "):
        refused(api.post("/catalogs", json={"name": "blank", "data_path": blank}), 422, "validation", "data path")


def test_the_instance(api):
    assert set(ok(api.get("/info"))) <= {"name"}


def test_a_wide_history_of_one_column(lake):
    """Each vintage of the schema is seen at its own snapshot."""
    seen = {}
    for n in range(10):
        seen[ok(lake.alter({"op": "add_column", "column": column(f"c{n}", "int")}))["snapshot_id"]] = 5 + n
    for snapshot, columns in seen.items():
        assert len(ok(lake.get_table(snapshot=snapshot))["columns"]) == columns
