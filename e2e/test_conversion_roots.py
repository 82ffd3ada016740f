"""Where conversion over REST may read and write: paths of requests, and whatever the metadata of a table leads to."""

import json
import os
import pathlib
import shutil

import pytest

from formats import Store, sample
from server import Server
from test_conversion import TABLE, ask, client, done, failed


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> pathlib.Path:
    """`in` is allowed, `out` is not; each has a Delta table `t`, with Iceberg metadata in `in/ice`."""
    folder = tmp_path_factory.mktemp("places")
    for place in ["in", "out", "in2"]:
        Store(str(folder / place)).write_delta("t", sample(0, 5))
    return folder


@pytest.fixture(scope="module")
def api(places):
    flags = ("--conversion-roots", f"s3://lake/in,file://{places}/in")
    with Server(flags=flags) as server:
        with client(server.url) as made:
            made.endpoint = f"http://{server.s3_endpoint}"
            yield made
        faults = server.faults()
        assert server.stop() == 0 and not faults, "\n".join(faults[:20])


def outside(response) -> None:
    failed(response, 403, "forbidden_path")


def everything(folder: pathlib.Path) -> dict[str, float]:
    return {str(p): p.lstat().st_mtime_ns for p in sorted(folder.rglob("*"))}


SPELLINGS = [
    "{out}/t",
    "file:{out}/t",
    "file://{out}/t",
    "file://localhost{out}/t",
    "FILE://{out}/t",
    "file://host{in}/t",
    "{in}/../out/t",
    "{in}/./../out/t",
    "{in}/%2e%2e/out/t",
    "{in}/%252e%252e/out/t",
    "{in}/..%2fout/t",
    "{in}/..\\out\\t",
    "{in}2/t",
    "{IN}/t",
    "{in}/t/_delta_log/../../../out/t",
    "/",
    "//",
    "/etc/passwd",
    "/proc/self/environ",
    "file:///",
    "s3://lake",
    "s3://lake/",
    "s3://lake/in2/t",
    "s3://lake/IN/t",
    "s3://LAKE/in/t",
    "s3://lake/in/../out/t",
    "s3://lake//in/t",
    "s3a://lake/out/t",
    "S3N://lake/out/t",
    "s3://other/in/t",
    "s3:/lake/in/t",
    "s3://lake@evil/in/t",
    "s3://key:secret@lake/in/t",
    "gs://lake/in/t",
    "abfss://lake@in.dfs.core.windows.net/t",
    "az://lake/in/t",
    "http://127.0.0.1:9000/lake/in/t",
    "http://169.254.169.254/latest/meta-data",
    "ftp://lake/in/t",
    "hdfs://lake/in/t",
    "memory:///in/t",
    "hoglake://lake/in/t",
]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_spelling_of_a_path_gets_outside(api, places, spelling):
    path = spelling.format(**{"in": f"{places}/in", "out": f"{places}/out", "IN": f"{places}/IN"})
    before = everything(places)
    outside(api.post(TABLE, json=ask("DELTA", path, "ICEBERG")))
    outside(api.post(TABLE, json=ask("PARQUET", path, "ICEBERG"), headers={"Prefer": "respond-async"}))
    inside = f"{places}/in/t"
    outside(api.post(TABLE, json=ask("DELTA", inside, "ICEBERG", **{"source-data-path": path})))
    outside(api.post(TABLE, json=ask("DELTA", inside, "ICEBERG", configurations={"source-data-path": path})))
    assert everything(places) == before


@pytest.mark.parametrize("path", ["", " ", "t", "./t", "~/t", "t/_delta_log", "x" * 5000])
def test_what_is_no_location_is_a_bad_request(api, path):
    response = api.post(TABLE, json=ask("DELTA", path, "ICEBERG"))
    assert response.status_code in (400, 403), response.text


def test_every_spelling_of_a_path_inside_is_inside(api, places):
    for path in [f"{places}/in/t", f"file:{places}/in/t/", f"file://{places}//in/t", f"file://localhost{places}/in/t/_delta_log"]:
        assert done(api.post(TABLE, json=ask("DELTA", path, "ICEBERG")))["ICEBERG"]


@pytest.fixture
def table(places, request):
    """A table inside, of this test's own."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    Store(str(places / "in")).write_delta(name, sample(0, 5))
    yield places / "in" / name
    shutil.rmtree(places / "in" / name, ignore_errors=True)


def rewritten(table: pathlib.Path, change) -> None:
    """Puts the table's actions through `change`."""
    log = table / "_delta_log" / "00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        change(action)
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))


@pytest.mark.parametrize("what", ["table", "_delta_log", "commit"])
def test_links_that_lead_outside_are_not_read(api, places, table, what):
    if what == "table":
        shutil.rmtree(table)
        table.symlink_to(places / "out" / "t")
    elif what == "_delta_log":
        shutil.rmtree(table / "_delta_log")
        (table / "_delta_log").symlink_to(places / "out" / "t" / "_delta_log")
    else:
        log = table / "_delta_log" / "00000000000000000000.json"
        log.unlink()
        log.symlink_to(places / "out" / "t" / "_delta_log" / log.name)
    before = everything(places)
    response = api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG"))
    assert response.status_code in (403, 404), response.text
    assert everything(places) == before
    if table.is_symlink():
        table.unlink()


def test_links_in_a_folder_of_parquet_files_are_left_out(api, places, table):
    (table / "linked").symlink_to(places / "out" / "t")
    for file in (places / "out" / "t").glob("*.parquet"):
        (table / f"linked-{file.name}").symlink_to(file)
    shutil.rmtree(table / "_delta_log")
    made = done(api.post(TABLE, json=ask("PARQUET", str(table), "ICEBERG")))["ICEBERG"]
    rows = Store(str(places / "in")).read("ICEBERG", made["target-metadata-path"])
    assert all(len(found) == 5 for found in rows.values())


@pytest.mark.parametrize("folder", ["metadata", "_delta_log", ".hoodie"])
def test_nothing_is_written_through_a_link(api, places, table, folder):
    victim = places / "out" / f"victim-{folder}"
    victim.mkdir()
    source, target = "DELTA", "ICEBERG" if folder == "metadata" else "HUDI"
    where = {}
    if folder == "_delta_log":
        metadata = done(api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG")))["ICEBERG"]["target-metadata-path"]
        (table / "elsewhere").mkdir()
        source, target, where = "ICEBERG", "DELTA", {"source-data-path": str(table / "elsewhere")}
        (table / "elsewhere" / folder).symlink_to(victim)
        table = pathlib.Path(metadata.removeprefix("file://"))
    else:
        (table / folder).symlink_to(victim)
    response = api.post(TABLE, json=ask(source, str(table), target, **where))
    outside(response)
    assert not list(victim.rglob("*"))


@pytest.mark.parametrize("scheme", ["", "file://", "s3://lake"])
def test_data_files_outside_are_not_read(api, places, table, scheme):
    """A file whose rows only its footer tells: converting has to read it."""
    file = next((places / "out" / "t").glob("*.parquet"))
    path = f"{scheme}/out/x.parquet" if scheme == "s3://lake" else f"{scheme}{file}"

    def change(action):
        if "add" in action:
            action["add"].update(path=path, stats=None)

    rewritten(table, change)
    outside(api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG")))


@pytest.mark.parametrize("path", ["file:///etc/passwd", "s3://other/x.parquet"])
def test_data_files_outside_are_not_named_to_others(api, table, path):
    """Nothing has to be read of them here, but readers of the target would read them."""

    def change(action):
        if "add" in action:
            action["add"].update(path=path, stats=json.dumps({"numRecords": 1}))

    rewritten(table, change)
    outside(api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG")))


@pytest.mark.parametrize("path", ["../../out/t/x.parquet", "..%2F..%2Fout%2Ft%2Fx.parquet", "a/%2e%2e/%2e%2e/%2e%2e/out/t/x.parquet"])
def test_paths_of_data_files_do_not_climb(api, table, path):
    def change(action):
        if "add" in action:
            action["add"].update(path=path, stats=None)

    rewritten(table, change)
    failed(api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG")), 422, "malformed_table")


def test_a_deletion_vector_outside_is_not_read(api, places, table):
    def change(action):
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"],
            }
        if "add" in action:
            secret = f"file://{places}/out/t/dv.bin"
            action["add"]["deletionVector"] = {
                "storageType": "p", "pathOrInlineDv": secret, "offset": 1, "sizeInBytes": 34, "cardinality": 2
            }  # fmt: skip

    rewritten(table, change)
    outside(api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG")))


@pytest.mark.parametrize("where", ["file:///etc/passwd", "s3://lake/out/snap.avro", "s3a://other/snap.avro", "gs://x/y"])
def test_manifests_outside_are_not_read(api, places, table, where):
    made = done(api.post(TABLE, json=ask("DELTA", str(table), "ICEBERG")))["ICEBERG"]
    file = pathlib.Path(made["target-metadata-path"].removeprefix("file://"))
    metadata = json.loads(file.read_text())
    metadata["snapshots"][-1]["manifest-list"] = where
    file.write_text(json.dumps(metadata))
    elsewhere = {"source-data-path": str(table / "copy")}
    outside(api.post(TABLE, json=ask("ICEBERG", str(file), "DELTA", **elsewhere)))
    assert not (table / "copy").exists()


def test_a_version_hint_does_not_climb(api, places, table):
    (table / "metadata").mkdir()
    (table / "metadata" / "version-hint.text").write_text(f"../../../out/t/v1{os.sep}")
    elsewhere = {"source-data-path": str(table / "copy")}
    response = api.post(TABLE, json=ask("ICEBERG", str(table), "DELTA", **elsewhere))
    assert response.status_code in (403, 404, 422), response.text


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254", "http://127.0.0.1:1", "http://localhost:22", "https://s3.evil.example"]
)
def test_no_endpoint_but_the_listed_ones(api, places, table, endpoint):
    keys = {"s3.endpoint": endpoint, "s3.access-key-id": "a", "s3.secret-access-key": "b"}
    failed(api.post(TABLE, json=ask("DELTA", "s3://lake/in/t", "ICEBERG", configurations=keys)), 403, "forbidden_endpoint")
    for key in ["gcs.endpoint", "azure.endpoint"]:
        configurations = {key: endpoint, f"{key.split('.')[0]}.oauth2-token": "x"}
        response = api.post(TABLE, json=ask("DELTA", "s3://lake/in/t", "ICEBERG", configurations=configurations))
        failed(response, 403, "forbidden_endpoint")
