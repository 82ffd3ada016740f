"""Conversion over REST: tables of delta-rs and PyIceberg, read back by engines from the path that the answer names."""

import json
import time

import httpx
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from contract import judged
from formats import Store, multiset, sample
from server import Server

TABLE = "/v1/conversion/table"


def client(url: str, **kwargs) -> httpx.Client:
    return httpx.Client(base_url=url, event_hooks={"response": [judged]}, timeout=120, **kwargs)


def ask(source: str, path: str, *targets: str, name: str = "orders", **more) -> dict:
    body = {"source-format": source, "source-table-name": name, "source-table-path": path, "target-formats": list(targets)}
    return body | more


def done(response: httpx.Response) -> dict[str, dict]:
    """The targets of a successful answer, by format."""
    assert response.status_code == 200, f"{response.status_code} {response.text}"
    targets = response.json()["conversions"]
    assert len({t["target-format"] for t in targets}) == len(targets)
    return {t["target-format"]: t for t in targets}


def failed(response: httpx.Response, status: int, kind: str, *fragments: str) -> str:
    """Asserts the ErrorModel of a refusal and returns its message."""
    told = f"{response.status_code} {response.text[:600]}"
    assert response.headers["content-type"] == "application/json", told
    body = response.json()
    assert (response.status_code, body.get("code"), body.get("type")) == (status, status, kind), told
    for fragment in fragments:
        assert fragment in body["message"], told
    return body["message"]


def same_rows(store: Store, target: dict, expected: pa.Table) -> None:
    for engine, rows in store.read(target["target-format"], target["target-metadata-path"]).items():
        assert multiset(rows) == multiset(expected.to_pylist()), engine


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def converter(local):
    """A server that converts in its bucket and in one folder of this machine."""
    flags = ("--conversion-roots", f"s3://lake/conv,{local}", "--conversion-lease-seconds", "3")
    with Server(flags=flags) as server:
        yield server
        # The object store tells of requests with wrong credentials, which a test makes.
        faults = [line for line in server.faults() if '"target":"s3s' not in line]
        assert server.stop() == 0 and not faults, "\n".join(faults[:20])


@pytest.fixture(scope="module")
def api(converter):
    with client(converter.url) as made:
        yield made


@pytest.fixture(params=["s3", "file"])
def store(request, converter, local) -> Store:
    if request.param == "file":
        return Store(str(local))
    return Store("s3://lake/conv", f"http://{converter.s3_endpoint}")


@pytest.fixture
def name(request) -> str:
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def test_a_delta_table_in_every_format_and_what_follows(api, store, name):
    path = store.write_delta(name, sample(0, 40), partition_by=["region"])
    first = done(api.post(TABLE, json=ask("delta", path, "Iceberg", "hudi")))
    iceberg, hudi = first["ICEBERG"], first["HUDI"]
    assert (iceberg["outcome"], iceberg["sync-mode"], iceberg["commits"]) == ("committed", "full", 1)
    assert "does not exist" in iceberg["full-sync-reason"]
    assert iceberg["target-metadata-path"].endswith(f"{name}/metadata/v1.metadata.json")
    assert hudi["target-metadata-path"] == store.uri(f"{path}/.hoodie")
    schema = json.loads(iceberg["target-schema"])
    assert schema["type"] == "struct" and [f["name"] for f in schema["fields"]] == ["id", "region", "price"]
    assert json.loads(hudi["target-schema"])["type"] == "record"
    same_rows(store, iceberg, sample(0, 40))

    again = done(api.post(TABLE, json=ask("DELTA", f"{path}/_delta_log", "ICEBERG")))["ICEBERG"]
    assert (again["outcome"], again["commits"]) == ("no-change", 0) and "sync-mode" not in again
    assert again["target-metadata-path"] == iceberg["target-metadata-path"]

    store.write_delta(name, sample(40, 50), mode="append")
    store.delta(path).delete("id < 10")
    more = done(api.post(TABLE, json=ask("DELTA", path, "ICEBERG", "HUDI")))
    assert (more["ICEBERG"]["sync-mode"], more["ICEBERG"]["commits"]) == ("incremental", 2)
    same_rows(store, more["ICEBERG"], sample(10, 50))

    # Back again, from the metadata file itself, beside the old log.
    back = done(
        api.post(
            TABLE,
            json=ask("ICEBERG", more["ICEBERG"]["target-metadata-path"], "DELTA", **{"source-data-path": f"{path}/back"}),
        )
    )["DELTA"]
    assert back["target-metadata-path"] == store.uri(f"{path}/back/_delta_log")
    assert json.loads(back["target-schema"])["fields"][0]["name"] == "id"


def test_an_iceberg_table_of_a_catalog(api, store, name, tmp_path):
    table = store.write_iceberg(name, sample(0, 30), tmp_path)
    table.append(sample(30, 40))
    delta = done(api.post(TABLE, json=ask("ICEBERG", table.metadata_location, "DELTA", name="named")))["DELTA"]
    assert delta["target-metadata-path"].endswith(f"{name}/_delta_log")
    same_rows(store, delta, sample(0, 40))
    assert store.delta(delta["target-metadata-path"]).metadata().name == "named"
    table.delete("id >= 20")
    folder = table.metadata_location.rsplit("/", 1)[0]
    more = done(api.post(TABLE, json=ask("iceberg", folder, "DELTA")))["DELTA"]
    same_rows(store, more, sample(0, 20))


def test_a_folder_of_parquet_files(api, store, name):
    path = store.write_delta(f"{name}-made", sample(0, 10))
    both = done(api.post(TABLE, json=ask("PARQUET", path, "ICEBERG")))
    same_rows(store, both["ICEBERG"], sample(0, 10))


def test_a_job_is_accepted_and_followed(api, store, name):
    path = store.write_delta(name, sample(0, 10))
    for number, prefer in enumerate(["respond-async", "handling=lenient, Respond-Async; foo=bar", "wait=0, respond-async"]):
        accepted = api.post(TABLE, json=ask("DELTA", path, "ICEBERG"), headers={"Prefer": prefer})
        assert accepted.status_code == 202, accepted.text
        assert accepted.headers["preference-applied"] == "respond-async"
        job = accepted.json()["conversion-id"]
        assert accepted.headers["location"] == f"{TABLE}/{job}"
        outcome = followed(api, accepted.headers["location"])
        assert done(outcome)["ICEBERG"]["outcome"] == ("no-change" if number else "committed")
        assert followed(api, accepted.headers["location"]).json() == outcome.json()
    waited = api.post(TABLE, json=ask("DELTA", path, "ICEBERG"), headers={"Prefer": "respond-async, wait=20"})
    assert done(waited)["ICEBERG"]["outcome"] == "no-change"
    for other in ["respond-async=no", "wait=5", "return=minimal", ""]:
        assert "preference-applied" not in api.post(TABLE, json=ask("DELTA", path, "ICEBERG"), headers={"Prefer": other}).headers


def followed(api: httpx.Client, location: str, seconds: float = 30) -> httpx.Response:
    deadline = time.monotonic() + seconds
    while True:
        response = api.get(location)
        if response.status_code != 202:
            return response
        assert not response.content and response.headers["retry-after"]
        assert time.monotonic() < deadline, "the conversion does not end"
        time.sleep(0.05)


def test_a_job_that_fails_says_why(api, store, name):
    accepted = api.post(TABLE, json=ask("DELTA", store.at(f"{name}-none"), "ICEBERG"), headers={"Prefer": "respond-async"})
    failed(followed(api, accepted.headers["location"]), 404, "table_not_found", "no DELTA table")
    for unknown in ["nope", "00000000-0000-4000-8000-000000000000", "%2e%2e", "a%00b"]:
        failed(api.get(f"{TABLE}/{unknown}"), 404, "not_found")


def test_if_any_target_fails_the_answer_is_no_success(api, store, name):
    rows = pa.table({"id": [1, 2], "at": pa.array([1, 2], pa.timestamp("us", "UTC"))})
    path = store.write_delta(name, rows, partition_by=["at"])
    message = failed(api.post(TABLE, json=ask("DELTA", path, "ICEBERG", "HUDI")), 422, "unsupported", "1 of 2 targets failed")
    assert "ICEBERG: brought up to date" in message and "HUDI: failed (unsupported)" in message and "`at`" in message.replace('"', "`")
    assert "metadata.json" not in message
    assert done(api.post(TABLE, json=ask("DELTA", path, "ICEBERG")))["ICEBERG"]["outcome"] == "no-change"


def test_a_key_is_answered_once(api, store, name):
    path = store.write_delta(name, sample(0, 5))
    body = ask("DELTA", path, "ICEBERG")
    first = api.post(TABLE, json=body, headers={"Idempotency-Key": f"{name}-1"})
    store.write_delta(name, sample(5, 9), mode="append")
    again = api.post(TABLE, json=body, headers={"Idempotency-Key": f"{name}-1"})
    assert done(again) == done(first) and again.headers["idempotent-replayed"] == "true"
    failed(
        api.post(TABLE, json=ask("DELTA", path, "HUDI"), headers={"Idempotency-Key": f"{name}-1"}), 422, "validation"
    )
    headers = {"Idempotency-Key": f"{name}-2", "Prefer": "respond-async"}
    jobs = [api.post(TABLE, json=body, headers=headers) for _ in range(2)]
    assert jobs[0].json() == jobs[1].json() and jobs[0].headers["location"] == jobs[1].headers["location"]
    same_rows(store, done(followed(api, jobs[0].headers["location"]))["ICEBERG"], sample(0, 9))


def test_credentials_of_a_request_are_used_and_shown_nowhere(api, converter, name):
    store = Store("s3://lake/conv", f"http://{converter.s3_endpoint}")
    path = store.write_delta(name, sample(0, 5))
    wrong = {"s3.access-key-id": "AKIAWRONG", "s3.secret-access-key": "s3cret-of-the-request", "s3.session-token": "t0ken-x"}
    for headers in ({}, {"Prefer": "respond-async, wait=20"}):
        response = api.post(TABLE, json=ask("DELTA", path, "ICEBERG", configurations=wrong), headers=headers)
        message = failed(response, 403, "store_denied", "denies access")
        assert not any(secret in message for secret in wrong.values())
    right = {"s3.access-key-id": "hoglake", "s3.secret-access-key": "hoglake123", "s3.endpoint": store.endpoint}
    accepted = api.post(TABLE, json=ask("DELTA", path, "ICEBERG", configurations=right), headers={"Prefer": "respond-async"})
    assert done(followed(api, accepted.headers["location"]))["ICEBERG"]["outcome"] == "committed"
    # The wrong ones of one request do not stick to the next.
    assert done(api.post(TABLE, json=ask("DELTA", path, "ICEBERG")))["ICEBERG"]["outcome"] == "no-change"
    written = converter.log.read_text() + (converter.state / "state" / "audit.jsonl").read_text()
    assert not [secret for secret in wrong.values() if secret in written]


def test_what_was_done_is_in_audit_and_metrics(api, converter, store, name):
    path = store.write_delta(name, sample(0, 5))
    api.post(TABLE, json=ask("DELTA", path, "ICEBERG"), headers={"X-Request-Id": f"ok-{name}"})
    api.post(TABLE, json=ask("DELTA", "s3://other/t", "ICEBERG"), headers={"X-Request-Id": f"no-{name}"})
    lines = []
    for _ in range(100):
        text = (converter.state / "state" / "audit.jsonl").read_text()
        lines = [line for line in map(json.loads, text.splitlines()) if line.get("request_id", "").endswith(f"-{name}")]
        if len(lines) == 2:
            break
        time.sleep(0.05)
    assert [(line["action"], line["outcome"], line["object"]) for line in lines] == [
        ("conversion", "ok", path),
        ("conversion", "validation", "s3://other/t"),
    ]
    metrics = api.get("/metrics").text
    assert 'hoglake_conversions_total{source="DELTA",target="ICEBERG",result="committed"}' in metrics
    assert "hoglake_conversion_duration_seconds_count" in metrics


def test_xtable_s_clients_are_understood(api, store, name):
    path = store.write_delta(name, sample(0, 8), partition_by=["region"])
    body = {
        "source-format": "DELTA",
        "source-table-name": "t",
        "source-table-path": path,
        "source-data-path": path,
        "target-format": ["ICEBERG"],
        "configurations": {"partition-spec": "region:VALUE"},
    }
    iceberg = done(api.post(TABLE, json=body))["ICEBERG"]
    assert any("partition-spec" in warning for warning in iceberg["warnings"])
    same_rows(store, iceberg, sample(0, 8))
    # A full sync, with nothing to do and with something, and a table that some other writer owns.
    again = done(api.post(TABLE, json=ask("DELTA", path, "ICEBERG", configurations={"sync-mode": "FULL"})))["ICEBERG"]
    assert (again["outcome"], again["commits"], again["target-metadata-path"]) == ("no-change", 0, iceberg["target-metadata-path"])
    store.write_delta(name, sample(8, 9), mode="append")
    full = done(api.post(TABLE, json=ask("DELTA", path, "ICEBERG", configurations={"sync-mode": "FULL"})))["ICEBERG"]
    assert (full["sync-mode"], full["full-sync-reason"]) == ("full", "asked for")
    same_rows(store, full, sample(0, 9))
    DeltaTable.create(
        store.at(f"{name}-own"), pa.schema([("x", pa.int64())]), storage_options=store.delta_options
    )
    own = ask("ICEBERG", f"{path}/metadata", "DELTA", **{"source-data-path": store.at(f"{name}-own")})
    failed(api.post(TABLE, json=own), 422, "unsupported", "no conversion has written")
