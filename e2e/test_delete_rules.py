"""The rules of `POST /commit` for deletion vectors, as tables."""

import threading

import pytest

from lake import Lake, client, column, ok, refused


@pytest.fixture
def ten(lake) -> Lake:
    """`ns.t` with data file 1 of ten records; head is 3."""
    lake.append(lake.file(10))
    return lake


@pytest.fixture(scope="module")
def shared(api) -> Lake:
    """Only refused deletes reach it. File 1 (10 records) has a vector of 5; file 2 is another table's; 4 is dead."""
    made = Lake(api, "delete-rules").create()
    made.namespace()
    made.table()
    made.table("other")
    made.append(made.file(10))
    made.append(made.file(10), table="other")
    made.delete_rows(made.vector(1, 5))
    made.table("doomed")
    made.append(made.file(10), table="doomed")
    ok(made.delete("namespaces", "ns", "tables", "doomed"))
    assert [f["data_file_id"] for f in made.files()] == [1]
    return made


REFUSED = {
    "blank path": ({"path": ""}, "path"),
    "path outside the data path": ({"path": "s3://lake/elsewhere/x.puffin"}, "elsewhere"),
    "path that climbs out": ({"path": "s3://lake/delete-rules/../x"}, ".."),
    "no positions": ({"delete_count": 0}, "delete_count"),
    "negative positions": ({"delete_count": -1}, "delete_count"),
    "more positions than records": ({"delete_count": 11}, "delete_count"),
    "fewer positions than before": ({"delete_count": 4}, "delete_count"),
    "negative size": ({"file_size_bytes": -1}, "file_size_bytes"),
    "unknown file": ({"data_file_id": 999}, "999"),
    "file 0": ({"data_file_id": 0}, "0"),
    "negative file": ({"data_file_id": -1}, "-1"),
    "file of another table": ({"data_file_id": 2}, "2"),
    "a deletion vector": ({"data_file_id": 3}, "3"),
    "file of a dropped table": ({"data_file_id": 4}, "4"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_vector_refused(shared, case):
    fields, word = REFUSED[case]
    vector = {**shared.vector(1, 6), **fields}
    with shared.unchanged():
        body = {"read_snapshot": shared.head(), "deletes": [shared.deletes(vector)]}
        refused(shared.commit(**body), 422, "validation", word)


@pytest.mark.parametrize("spread", ["one entry", "two entries"])
def test_one_file_twice_in_a_commit(shared, spread):
    one, two = shared.vector(1, 6), shared.vector(1, 7)
    entries = [shared.deletes(one, two)] if spread == "one entry" else [shared.deletes(one), shared.deletes(two)]
    with shared.unchanged():
        refused(shared.commit(read_snapshot=shared.head(), deletes=entries), 422, "validation", "1")


def test_a_file_of_the_same_commit(ten):
    predicted = ten.files()[-1]["data_file_id"] + 1
    body = {
        "read_snapshot": ten.head(),
        "appends": [ten.appends(ten.file(5))],
        "deletes": [ten.deletes(ten.vector(predicted))],
    }
    with ten.unchanged():
        refused(ten.commit(**body), 422, "validation", str(predicted))
    assert len(ten.files()) == 1


def test_vectors_grow_or_stay(ten):
    ten.delete_rows(ten.vector(1, 3))
    ten.delete_rows(ten.vector(1, 3))
    ten.delete_rows(ten.vector(1, 10))
    with ten.unchanged():
        refused(
            ten.commit(read_snapshot=ten.head(), deletes=[ten.deletes(ten.vector(1, 9))]), 422, "validation", "delete_count"
        )
    (entry,) = ten.scan()
    assert (entry["delete_file"]["delete_count"], entry["delete_file"]["begin_snapshot"]) == (10, ten.head())
    assert ok(ten.get_table())["record_count"] == 10, "totals are gross"


def test_an_older_view_than_the_vector_is_a_conflict_before_it_is_a_shrink(ten):
    read_snapshot = ten.head()
    winner = ten.delete_rows(ten.vector(1, 5), read_snapshot=read_snapshot)
    body = {"read_snapshot": read_snapshot, "deletes": [ten.deletes(ten.vector(1, 2))]}
    with ten.unchanged():
        refused(ten.commit(**body), 409, "commit_conflict", "ns.t", str(winner))
    assert ten.delete_rows(ten.vector(1, 7)) == winner + 1


def test_a_table_altered_since_is_a_conflict(ten):
    read_snapshot = ten.head()
    ok(ten.alter({"op": "add_column", "column": column("x", "int")}))
    body = {"read_snapshot": read_snapshot, "deletes": [ten.deletes(ten.vector(1))]}
    with ten.unchanged():
        refused(ten.commit(**body), 409, "commit_conflict", "altered")


def test_a_table_dropped_and_recreated_since_is_a_conflict(ten):
    read_snapshot = ten.head()
    ok(ten.delete("namespaces", "ns", "tables", "t"))
    ten.table()
    body = {"read_snapshot": read_snapshot, "deletes": [ten.deletes(ten.vector(1))]}
    with ten.unchanged():
        refused(ten.commit(**body), 409, "commit_conflict", "ns.t")


def test_appends_never_stand_in_the_way(ten):
    read_snapshot = ten.head()
    ten.append()
    assert ten.delete_rows(ten.vector(1), read_snapshot=read_snapshot) == read_snapshot + 2


def test_a_file_younger_than_the_view_is_a_conflict(ten):
    read_snapshot = ten.head()
    ten.append()
    young = ten.files()[-1]["data_file_id"]
    body = {"read_snapshot": read_snapshot, "deletes": [ten.deletes(ten.vector(young))]}
    with ten.unchanged():
        response = ten.commit(**body)
        assert response.status_code in (409, 422), response.text
        assert response.json()["error"] in ("commit_conflict", "validation")


def test_an_older_vector_is_seen_at_older_snapshots(ten):
    counts = {}
    for count in (1, 4, 9):
        counts[ten.delete_rows(ten.vector(1, count))] = count
    for snapshot, count in counts.items():
        (entry,) = ten.scan(snapshot=snapshot)
        assert entry["delete_file"]["delete_count"] == count
    (entry,) = ten.scan(snapshot=3)
    assert "delete_file" not in entry


def test_concurrent_deletes_of_one_file(server, ten):
    read_snapshot = ten.head()
    statuses, lock = [], threading.Lock()

    def race(n: int):
        body = {"read_snapshot": read_snapshot, "deletes": [ten.deletes(ten.vector(1, n + 1))]}
        with client(server.url) as own:
            status = own.post(ten.url("commit"), json=body).status_code
            with lock:
                statuses.append(status)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] + [409] * 7
    assert ten.head() == read_snapshot + 1


def test_deletes_in_two_tables(ten):
    ten.table("u")
    ten.append(ten.file(5), table="u")
    (other,) = ten.files("u")
    entries = [ten.deletes(ten.vector(1)), ten.deletes(ten.vector(other["data_file_id"]), table="u")]
    head = ten.head()
    assert ok(ten.commit(read_snapshot=head, deletes=entries))["snapshot_id"] == head + 1
    assert "delete_file" in ten.scan()[0] and "delete_file" in ten.scan("u")[0]
    (snapshot,) = ok(ten.get("snapshots", after=head))["snapshots"]
    assert [c["kind"] for c in snapshot["changes"]] == ["table_deleted_from"] * 2
    assert len({c["object_id"] for c in snapshot["changes"]}) == 2


def test_a_refused_delete_takes_its_appends_along(ten):
    body = {
        "read_snapshot": ten.head(),
        "appends": [ten.appends(ten.file(5))],
        "deletes": [ten.deletes(ten.vector(1, 11))],
    }
    with ten.unchanged():
        refused(ten.commit(**body), 422, "validation")
    ten.append(ten.file(1))
    assert [(f["data_file_id"], f["row_id_start"]) for f in ten.files()] == [(1, 0), (2, 10)]
