"""Sequences of requests whose ids, statuses and orders clients have come to rely on."""

import threading

import pytest

from lake import COLUMNS, Lake, client, column, ok, refused


def test_the_first_five_snapshots(bare):
    assert bare.state() == {
        "name": bare.name,
        "data_path": bare.data_path,
        "head_snapshot_id": 0,
        "schema_version": 0,
    }
    assert bare.namespace() == {"name": "ns", "snapshot_id": 1}
    table = bare.table()
    assert table["snapshot_id"] == 2
    committed = ok(bare.commit(appends=[bare.appends(bare.file(4))]))
    assert committed == {"snapshot_id": 3, "schema_version": 2}
    (file,) = bare.files()
    assert (file["data_file_id"], file["row_id_start"], file["begin_snapshot"]) == (1, 0, 3)
    deleted = ok(bare.commit(read_snapshot=3, deletes=[bare.deletes(bare.vector(1))]))
    assert deleted == {"snapshot_id": 4, "schema_version": 2}
    assert bare.scan()[0]["delete_file"]["delete_file_id"] == 2, "vectors and data files share one allocator"
    view = ok(bare.post("namespaces", "ns", "views", json={"name": "v", "sql": "SELECT 1"}), 201)
    assert view["snapshot_id"] == 5
    assert bare.state()["schema_version"] == 3

    offset = bare.url("consumers", "c", "offsets", table["table_uuid"])
    assert ok(bare.api.put(offset, json={"snapshot_id": 4}))["committed_snapshot"] == 4
    refused(bare.api.put(offset, json={"snapshot_id": 1}), 409, "offset_regression")
    for out_of_range in (-1, 6, 2**62):
        refused(bare.api.put(offset, json={"snapshot_id": out_of_range}), 422, "validation")
    long_id = bare.url("consumers", "c" * 129, "offsets", table["table_uuid"])
    refused(bare.api.put(long_id, json={"snapshot_id": 1}), 422, "validation")
    longest = bare.url("consumers", "c" * 128, "offsets", table["table_uuid"])
    assert ok(bare.api.put(longest, json={"snapshot_id": 1}))["consumer_id"] == "c" * 128


def test_schema_version_counts_ddl_only(lake):
    lake.append()
    lake.append()
    assert lake.state()["schema_version"] == 2
    ok(lake.alter({"op": "add_column", "column": column("x", "int")}))
    assert lake.state()["schema_version"] == 3
    ok(lake.delete("namespaces", "ns", "tables", "t"))
    assert (lake.head(), lake.state()["schema_version"]) == (6, 4)


def test_a_name_through_twenty_renames(lake):
    uuid, seen = ok(lake.get_table())["table_uuid"], []
    name = "t"
    for n in range(20):
        altered = ok(lake.alter({"op": "rename_table", "new_name": f"t{n}"}, table=name))
        name = f"t{n}"
        seen.append((name, altered["snapshot_id"]))
    for name, snapshot in seen:
        assert ok(lake.get_table(name, snapshot=snapshot))["table_uuid"] == uuid
    refused(lake.get_table("t19", snapshot=seen[0][1]), 404, "not_found")
    refused(lake.get_table("t0"), 404, "not_found")
    assert ok(lake.get_table("t", snapshot=2))["table_uuid"] == uuid


def test_a_rename_to_itself_makes_a_snapshot(lake):
    head = lake.head()
    assert ok(lake.alter({"op": "rename_table", "new_name": "t"}))["snapshot_id"] == head + 1


def test_ten_lives_of_one_name(bare):
    bare.namespace()
    uuids = set()
    for _ in range(10):
        uuids.add(bare.table()["table_uuid"])
        bare.append(bare.file(5))
        assert bare.files()[0]["row_id_start"] == 0
        ok(bare.delete("namespaces", "ns", "tables", "t"))
    assert len(uuids) == 10


def test_a_thousand_files_in_one_commit(lake):
    lake.append(*(lake.file(1) for _ in range(1000)))
    files = lake.files()
    assert [f["row_id_start"] for f in files] == list(range(1000))
    assert [f["data_file_id"] for f in files] == list(range(1, 1001))
    assert ok(lake.get_table())["record_count"] == 1000


def test_five_hundred_columns(bare):
    bare.namespace()
    columns = [column(f"c{n}", "long") for n in range(500)]
    table = bare.table(columns=columns)
    assert [(c["field_id"], c["ordinal"]) for c in table["columns"]] == [(n + 1, n) for n in range(500)]
    stats = [{"field_id": n, "value_count": 1, "null_count": 0} for n in range(1, 501)]
    bare.append(bare.file(1, column_stats=stats))
    (entry,) = bare.scan(stats="true")
    assert [s["field_id"] for s in entry["column_stats"]] == list(range(1, 501))


def test_one_path_three_times(lake):
    twice = lake.file(1)
    lake.append(twice, {**twice, "record_count": 2})
    lake.append({**twice, "record_count": 3})
    got = [(f["data_file_id"], f["row_id_start"], f["record_count"]) for f in lake.files()]
    assert got == [(1, 0, 1), (2, 1, 2), (3, 3, 3)]


def test_fifty_operations_in_one_alter(lake):
    head = lake.head()
    ops = [{"op": "add_column", "column": column(f"c{n}", "string")} for n in range(50)]
    altered = ok(lake.alter(*ops))
    assert altered["snapshot_id"] == head + 1 == lake.head()
    (snapshot,) = ok(lake.get("snapshots", after=head))["snapshots"]
    assert [c["kind"] for c in snapshot["changes"]] == ["table_altered"]


def test_deeply_nested_type_params_survive(bare):
    bare.namespace()
    nested = {"precision": 10, "scale": 2}
    for level in range(50):
        nested = {"precision": 10, "scale": 2, f"level{level}": nested, "list": [1, None, {"x": "y"}]}
    table = bare.table(columns=[{"name": "d", "type": "decimal", "type_params": nested}])
    assert table["columns"][0]["type_params"] == nested
    assert ok(bare.get_table())["columns"][0]["type_params"] == nested


def test_text_that_means_something_to_sql(lake):
    hostile = "'; DROP TABLE hog_snapshot; -- \\ $1 %s {} \u0001 naïve 🦔"
    lake.append(author=hostile, message=hostile)
    lake.append(author="", message="")
    _, _, third, fourth = ok(lake.get("snapshots"))["snapshots"]
    assert (third["author"], third["message"]) == (hostile, hostile)
    assert (fourth["author"], fourth["message"]) == ("", "")
    uuid = ok(lake.get_table())["table_uuid"]
    assert ok(lake.api.put(lake.url("consumers", hostile, "offsets", uuid), json={"snapshot_id": 1}))["consumer_id"] == hostile
    assert [o["consumer_id"] for o in ok(lake.get("consumers", hostile, "offsets"))] == [hostile]


SNAPSHOT_PAGES = [
    ({"before": 1}, [0], False),
    ({}, [1, 2, 3, 4, 5], False),
    ({"after": 0}, [1, 2, 3, 4, 5], False),
    ({"after": -5, "limit": 2}, [0, 1], True),
    ({"after": 2}, [3, 4, 5], False),
    ({"after": 5}, [], False),
    ({"after": 100_000}, [], False),
    ({"before": 6, "limit": 3}, [5, 4, 3], True),
    ({"before": 100_000, "limit": 6}, [5, 4, 3, 2, 1, 0], False),
    ({"after": 0, "before": 3}, [2, 1, 0], False),
    ({"limit": 99_999}, [1, 2, 3, 4, 5], False),
    ({"limit": 5}, [1, 2, 3, 4, 5], False),
    ({"limit": 4}, [1, 2, 3, 4], True),
    ({"before": 0}, [], False),
    ({"before": -1}, [], False),
    ({"after": 2**63 - 1}, [], False),
]


@pytest.fixture(scope="module")
def five(api):
    made = Lake(api, "five-snapshots").create()
    made.namespace()
    made.table()
    for _ in range(3):
        made.append()
    return made


@pytest.mark.parametrize(("params", "ids", "has_more"), SNAPSHOT_PAGES, ids=lambda v: str(v))
def test_snapshot_page(five, params, ids, has_more):
    page = ok(five.get("snapshots", **params))
    assert ([s["snapshot_id"] for s in page["snapshots"]], page["has_more"]) == (ids, has_more)


@pytest.mark.parametrize("params", [{"limit": 0}, {"limit": -3}, {"after": 2, "before": 5}, {"after": -1, "before": 5}])
def test_snapshot_page_refused(five, params):
    refused(five.get("snapshots", **params), 422, "validation")


def test_pages_of_one_visit_every_snapshot(five):
    seen, after = [], -1
    while True:
        page = ok(five.get("snapshots", after=after, limit=1))
        seen += [s["snapshot_id"] for s in page["snapshots"]]
        if not page["has_more"]:
            break
        after = seen[-1]
    assert seen == [0, 1, 2, 3, 4, 5]


def test_genesis_has_no_changes(five):
    (genesis,) = ok(five.get("snapshots", before=1))["snapshots"]
    assert genesis.get("changes", []) == [] and genesis["schema_version"] == 0


def test_twelve_threads_race_one_offset(server, lake):
    for _ in range(6):
        lake.append()
    uuid, head = ok(lake.get_table())["table_uuid"], lake.head()
    statuses, lock = [], threading.Lock()

    def race(seed: int):
        with client(server.url) as own:
            for n in range(6):
                target = 2 + (seed * 5 + n * 7) % 6
                status = own.put(lake.url("consumers", "c", "offsets", uuid), json={"snapshot_id": target}).status_code
                with lock:
                    statuses.append((status, target))

    threads = [threading.Thread(target=race, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for status, _ in statuses} <= {200, 409}
    final = ok(lake.get("consumers", "c", "offsets", uuid))["committed_snapshot"]
    assert final == max(target for status, target in statuses if status == 200) <= head


def test_columns_come_back_as_sent(bare):
    bare.namespace()
    table = bare.table(columns=COLUMNS)
    got = [{k: c[k] for k in ("name", "type", "type_params", "nullable") if k in c} for c in table["columns"]]
    want = [{"nullable": True, **c} for c in COLUMNS]
    assert got == want
    assert (table["record_count"], table["file_count"], table["file_size_bytes"]) == (0, 0, 0)
    assert "partition_spec" not in table and "sort_spec" not in table
    assert ok(bare.get_table()) == {k: v for k, v in table.items() if k != "snapshot_id"}
