"""The rules of `POST /commit` for appended files, as tables."""

import pytest

from lake import NO_SUCH_UUID, Lake, column, ok, refused

MAX_RECORDS = 2**48
MAX_INT64 = 2**63 - 1
NAN = "AADAfw=="  # float32 NaN


@pytest.fixture(scope="module")
def shared(api) -> Lake:
    """A catalog that only refused commits reach: `ns.t` is not partitioned, `ns.p` is, by two fields."""
    made = Lake(api, "commit-rules").create()
    made.namespace()
    made.table()
    made.table("p")
    fields = [{"source_field_id": 2, "transform": "identity"}, {"source_field_id": 3, "transform": "day"}]
    ok(made.alter({"op": "set_partition_spec", "fields": fields}, table="p"))
    made.table("gone")
    ok(made.delete("namespaces", "ns", "tables", "gone"))
    return made


def stats(field_id=1, **fields):
    return {"field_id": field_id, "value_count": 1, "null_count": 0, **fields}


# Each case: which table, what the file says, and the word that the detail must contain.
FILES_REFUSED = {
    "blank path": ("t", {"path": ""}, "path"),
    "path of blanks": ("t", {"path": "   "}, "path"),
    "path outside the data path": ("t", {"path": "s3://lake/elsewhere/x.parquet"}, "s3://lake/elsewhere"),
    "path beside the data path": ("t", {"path": "s3://lake/commit-rules-other/x"}, "commit-rules-other"),
    "the data path itself": ("t", {"path": "s3://lake/commit-rules"}, "path"),
    "the data path with a slash": ("t", {"path": "s3://lake/commit-rules/"}, "path"),
    "path that climbs out": ("t", {"path": "s3://lake/commit-rules/../x"}, ".."),
    "path that climbs and returns": ("t", {"path": "s3://lake/commit-rules/a/../x"}, ".."),
    "path with a dot segment": ("t", {"path": "s3://lake/commit-rules/./x"}, "path"),
    "path with a control character": ("t", {"path": "s3://lake/commit-rules/a\nb"}, "path"),
    "another bucket": ("t", {"path": "s3://other/commit-rules/x"}, "s3://other"),
    "a relative path": ("t", {"path": "x.parquet"}, "path"),
    "negative records": ("t", {"record_count": -1}, "record_count"),
    "more than 2^48 records": ("t", {"record_count": MAX_RECORDS + 1}, "record_count"),
    "records at the int64 end": ("t", {"record_count": MAX_INT64}, "record_count"),
    "negative size": ("t", {"file_size_bytes": -1}, "file_size_bytes"),
    "negative footer": ("t", {"footer_size": -1}, "footer_size"),
    "footer larger than the file": ("t", {"footer_size": 10**9}, "footer_size"),
    "partition values without a spec": ("t", {"partition_values": ["x"]}, "partition"),
    "empty partition values without a spec": ("t", {"partition_values": []}, "partition"),
    "no partition values under a spec": ("p", {}, "partition"),
    "too few partition values": ("p", {"partition_values": ["x"]}, "partition"),
    "too many partition values": ("p", {"partition_values": ["x", "1", "2"]}, "partition"),
    "empty partition values under a spec": ("p", {"partition_values": []}, "partition"),
    "statistics of an unknown field": ("t", {"column_stats": [stats(99)]}, "99"),
    "statistics of field 0": ("t", {"column_stats": [stats(0)]}, "0"),
    "statistics of the row id": ("t", {"column_stats": [stats(2147483646)]}, "2147483646"),
    "statistics of one field twice": ("t", {"column_stats": [stats(1), stats(1)]}, "1"),
    "negative value_count": ("t", {"column_stats": [stats(value_count=-1)]}, "count"),
    "negative null_count": ("t", {"column_stats": [stats(null_count=-1)]}, "count"),
}


@pytest.mark.parametrize("case", FILES_REFUSED)
def test_file_refused(shared, case):
    table, fields, word = FILES_REFUSED[case]
    good = shared.file(1, **({"partition_values": ["x", "1"]} if table == "p" else {}))
    bad = shared.file(1, **fields)
    with shared.unchanged():
        # Behind a good file, so that the good one is seen to be undone.
        refused(shared.commit(appends=[shared.appends(good, bad, table=table)]), 422, "validation", word)


FILES_ACCEPTED = {
    "no records": ("t", {"record_count": 0}),
    "2^48 records": ("t", {"record_count": MAX_RECORDS}),
    "no bytes": ("t", {"file_size_bytes": 0}),
    "footer": ("t", {"footer_size": 100}),
    "statistics pending": ("t", {"column_stats": ...}),
    "statistics null": ("t", {"column_stats": None}),
    "statistics empty": ("t", {"column_stats": []}),
    "explicit nulls": ("t", {"footer_size": None, "partition_values": None}),
    "null partition values": ("p", {"partition_values": [None, None]}),
    "the text null": ("p", {"partition_values": ["null", ""]}),
    "free text as a day": ("p", {"partition_values": ["naïve 🦔 / %", "2026-01-01"]}),
    "bytes that are no bound": ("t", {"column_stats": [stats(lower_bound="AQ==", upper_bound="AQI=")]}),
    "a path with blanks and unicode": ("t", {"path": "s3://lake/{name}/a b/naïve=🦔/%20.parquet"}),
}


@pytest.mark.parametrize("case", FILES_ACCEPTED)
def test_file_accepted(lake, case):
    table, fields = FILES_ACCEPTED[case]
    if table == "p":
        lake.table("p")
        spec = [{"source_field_id": 2, "transform": "identity"}, {"source_field_id": 3, "transform": "day"}]
        ok(lake.alter({"op": "set_partition_spec", "fields": spec}, table="p"))
    fields = {k: v.format(name=lake.name) if k == "path" else v for k, v in fields.items()}
    sent = lake.file(1, **fields)
    snapshot = lake.append(sent, table=table)
    (file,) = lake.files(table)
    for key in ("path", "record_count", "file_size_bytes", "footer_size", "partition_values"):
        assert file.get(key) == sent.get(key), key
    assert file["begin_snapshot"] == snapshot
    assert file["stats_state"] == ("pending" if sent.get("column_stats") is None else "provided")
    assert file["explicit_row_ids"] is False
    assert file.get("spec_id") == (1 if table == "p" else None)
    assert lake.scan(table)[0]["data_file"] == file


def test_a_data_path_with_a_trailing_slash_is_the_same(api, name):
    lake = Lake(api, name, f"s3://lake/{name}/").create()
    lake.namespace()
    lake.table()
    lake.append(lake.file(path=f"s3://lake/{name}/x"))
    with lake.unchanged():
        refused(lake.commit(appends=[lake.appends(lake.file(path=f"s3://lake/{name}x/y"))]), 422, "validation")


def test_at_most_five_offending_paths_are_named(shared):
    files = [shared.file(path=f"s3://lake/wrong/{n}") for n in range(9)]
    body = refused(shared.commit(appends=[shared.appends(*files)]), 422, "validation")
    assert body["detail"].count("s3://lake/wrong/") == 5


BODIES_REFUSED = {
    "nothing": ({}, 422, "validation", "append"),
    "empty lists": ({"appends": [], "deletes": []}, 422, "validation", "append"),
    "null lists": ({"appends": None, "deletes": None}, 422, "validation", "append"),
    "an append without files": ({"appends": [{"namespace": "ns", "table": "t", "files": []}]}, 422, "validation", "files"),
    "a delete without files": (
        {"read_snapshot": 1, "deletes": [{"namespace": "ns", "table": "t", "files": []}]},
        422,
        "validation",
        "files",
    ),
    "deletes without read_snapshot": ({"deletes": ["vector"]}, 422, "validation", "read_snapshot"),
    "deletes with read_snapshot null": ({"deletes": ["vector"], "read_snapshot": None}, 422, "validation", "read_snapshot"),
    "negative read_snapshot": ({"appends": ["file"], "read_snapshot": -1}, 422, "validation", "read_snapshot"),
    "read_snapshot above head": ({"appends": ["file"], "read_snapshot": 10**6}, 422, "validation", "read_snapshot"),
    "read_snapshot at 2^62": ({"appends": ["file"], "read_snapshot": 2**62}, 422, "validation", "read_snapshot"),
    "unknown namespace": ({"appends": ["file"], "namespace": "absent"}, 422, "validation", "absent"),
    "unknown table": ({"appends": ["file"], "table": "absent"}, 422, "validation", "absent"),
    "dropped table, no window": ({"appends": ["file"], "table": "gone"}, 422, "validation", "gone"),
    "hostile table": ({"appends": ["file"], "table": "'; --"}, 422, "validation", "'; --"),
    "another incarnation": ({"appends": ["file"], "uuid": NO_SUCH_UUID}, 409, "commit_conflict", "the table was recreated"),
}


@pytest.mark.parametrize("case", BODIES_REFUSED)
def test_body_refused(shared, case):
    body, status, error, word = BODIES_REFUSED[case]
    body = dict(body)
    entry = {"namespace": body.pop("namespace", "ns"), "table": body.pop("table", "t")}
    if "uuid" in body:
        entry["expected_table_uuid"] = body.pop("uuid")
    made = {"file": shared.file(), "vector": shared.vector(1)}
    for side in ("appends", "deletes"):
        if body.get(side) and isinstance(body[side][0], str):
            body[side] = [{**entry, "files": [made[what]]} for what in body[side]]
    with shared.unchanged():
        refused(shared.commit(**body), status, error, word)


def test_an_unknown_table_undoes_the_rest(lake):
    with lake.unchanged():
        body = [lake.appends(lake.file()), lake.appends(lake.file(), table="absent")]
        refused(lake.commit(appends=body), 422, "validation", "absent")
    assert lake.files() == []
    assert lake.append() == 3
    assert lake.files()[0]["data_file_id"] == 1


OVERFLOWS = {
    "row ids": [{"record_count": MAX_RECORDS}] * 2**15,
    "sizes": [{"file_size_bytes": MAX_INT64}, {"file_size_bytes": 1}],
}


@pytest.mark.parametrize("case", OVERFLOWS)
def test_sums_beyond_int64(lake, case):
    files = OVERFLOWS[case]
    with lake.unchanged():
        refused(lake.commit(appends=[lake.appends(*(lake.file(**f) for f in files))]), 422, "validation")
    lake.append()
    assert lake.files()[0]["row_id_start"] == 0


def test_no_file_claims_more_than_a_store_can_hold(lake):
    """Otherwise one registration could fill the table's count of bytes, and nothing could be appended any more."""
    largest = 2**48
    lake.append(lake.file(file_size_bytes=largest))
    for size in (largest + 1, MAX_INT64):
        with lake.unchanged():
            refused(lake.commit(appends=[lake.appends(lake.file(file_size_bytes=size))]), 422, "validation", str(largest))
    with lake.unchanged():
        path = f"{lake.data_path}/{'x' * 2048}"
        refused(lake.commit(appends=[lake.appends(lake.file(path=path))]), 422, "validation", "too long")
    lake.append(lake.file(file_size_bytes=1))
    assert ok(lake.get_table())["file_size_bytes"] == largest + 1


def test_zero_width_files_take_no_row_ids(lake):
    lake.append(lake.file(3), lake.file(0), lake.file(2), lake.file(0))
    lake.append(lake.file(1))
    assert [f["row_id_start"] for f in sorted(lake.files(), key=lambda f: f["data_file_id"])] == [0, 3, 3, 5, 5]


def test_one_table_listed_twice_is_merged_under_its_first_place(lake):
    lake.table("u")
    a, b, c, d = (lake.file(n) for n in (1, 2, 3, 4))
    entries = [lake.appends(a), lake.appends(b, table="u"), lake.appends(c), lake.appends(d, table="u")]
    snapshot = ok(lake.commit(appends=entries))["snapshot_id"]
    assert [(f["path"], f["row_id_start"]) for f in lake.files()] == [(a["path"], 0), (c["path"], 1)]
    assert [(f["path"], f["row_id_start"]) for f in lake.files("u")] == [(b["path"], 0), (d["path"], 2)]
    ids = {f["path"]: f["data_file_id"] for f in lake.files() + lake.files("u")}
    assert [ids[f["path"]] for f in (a, c, b, d)] == [1, 2, 3, 4]
    (made,) = ok(lake.get("snapshots", after=snapshot - 1))["snapshots"]
    assert [c["kind"] for c in made["changes"]] == ["table_inserted_into"] * 2


# What other writers did after `read_snapshot`, and what an append by then is told.
RENAME = {"op": "rename_table", "new_name": "t2"}
ADD = {"op": "add_column", "column": column("x", "int")}
SINCE = {
    "nothing": ([], 200),
    "an append": (["append"], 200),
    "a delete": (["append", "delete"], 200),
    "an alter": ([ADD], 409),
    "an append and an alter": (["append", ADD], 409),
    "a drop": (["drop"], 409),
    "a drop and a create": (["drop", "create"], 409),
    "a rename away": ([RENAME], 409),
    "DDL on another table": (["other"], 200),
    "a view": (["view"], 200),
    "a namespace": (["namespace"], 200),
}


def happen(lake, what):
    if what == "append":
        lake.append()
    elif what == "delete":
        lake.delete_rows(lake.vector(lake.files()[-1]["data_file_id"]))
    elif what == "drop":
        ok(lake.delete("namespaces", "ns", "tables", "t"))
    elif what == "create":
        lake.table()
    elif what == "other":
        lake.table("other")
    elif what == "namespace":
        lake.namespace("other")
    elif what == "view":
        ok(lake.post("namespaces", "ns", "views", json={"name": "v", "sql": "SELECT 1"}), 201)
    else:
        ok(lake.alter(what))


@pytest.mark.parametrize("case", SINCE)
def test_append_after(lake, case):
    events, status = SINCE[case]
    read_snapshot = lake.head()
    for event in events:
        happen(lake, event)
    body = {"appends": [lake.appends(lake.file())], "read_snapshot": read_snapshot}
    if status == 200:
        assert ok(lake.commit(**body))["snapshot_id"] == lake.head()
    else:
        with lake.unchanged():
            refused(lake.commit(**body), 409, "commit_conflict", "ns.t")


def test_a_conflict_explains_itself(lake):
    read_snapshot = lake.append(author="first")
    ok(lake.alter(ADD))
    culprit = lake.head()
    body = {"appends": [lake.appends(lake.file())], "read_snapshot": read_snapshot, "author": "late"}
    detail = refused(lake.commit(**body), 409, "commit_conflict")["detail"]
    for word in ("ns.t", "altered", str(culprit)):
        assert word in detail
    assert ok(lake.commit(**body | {"read_snapshot": culprit}))


def test_a_writer_may_commit_into_the_table_that_it_just_created(lake):
    read_snapshot = lake.head()
    lake.table("eager")
    assert ok(lake.commit(appends=[lake.appends(lake.file(), table="eager")], read_snapshot=read_snapshot))


def test_an_old_read_snapshot_is_as_good_as_a_new_one(lake):
    start = lake.head()
    for _ in range(100):
        lake.append()
    assert ok(lake.commit(appends=[lake.appends(lake.file())], read_snapshot=start))
    ok(lake.alter(ADD))
    refused(lake.commit(appends=[lake.appends(lake.file())], read_snapshot=0), 409, "commit_conflict")


def test_the_right_incarnation_is_let_in_in_any_spelling(lake):
    uuid = ok(lake.get_table())["table_uuid"]
    for spelling in (uuid, uuid.upper(), None):
        assert ok(lake.commit(appends=[lake.appends(lake.file(), expected_table_uuid=spelling)]))


def test_both_uuids_are_in_the_refusal(lake):
    old = ok(lake.get_table())["table_uuid"]
    happen(lake, "drop")
    new = lake.table()["table_uuid"]
    body = [lake.appends(lake.file(), expected_table_uuid=old)]
    with lake.unchanged():
        refused(lake.commit(appends=body), 409, "commit_conflict", "the table was recreated", old, new)


def test_ids_stay_dense_over_refusals(lake):
    for n in range(5):
        lake.append()
        refused(lake.commit(appends=[lake.appends(lake.file(-1))]), 422, "validation")
        refused(lake.commit(appends=[lake.appends(lake.file(), expected_table_uuid=NO_SUCH_UUID)]), 409, "commit_conflict")
        refused(lake.commit(read_snapshot=lake.head(), deletes=[lake.deletes(lake.vector(999))]), 422, "validation")
        assert lake.head() == 3 + n
    assert [f["data_file_id"] for f in lake.files()] == [1, 2, 3, 4, 5]
    assert [f["row_id_start"] for f in lake.files()] == [0, 1, 2, 3, 4]
    snapshots = ok(lake.get("snapshots", after=-1))["snapshots"]
    assert [s["snapshot_id"] for s in snapshots] == list(range(8))
