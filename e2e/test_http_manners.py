"""What any HTTP client may expect: routes, methods, ids, encodings, pages for people, repeating safely."""

import gzip
import json
import re
import socket
import uuid

import httpx
import pytest
import yaml

from contract import CONTRACT
from lake import COLUMNS, Lake, column, ok, refused

UNKNOWN = [
    "/",
    "/nothing",
    "/catalogs/",
    "/catalogs/x/",
    "/catalogs/x/nothing",
    "/catalogs/x/namespaces/y/tables/z/scan/",
    "/Catalogs",
    "//catalogs",
]


@pytest.mark.parametrize("path", UNKNOWN)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PATCH"])
def test_unknown_route(api, method, path):
    refused(api.request(method, path), 404, "not_found")


def test_the_root_and_beyond_v1(server):
    for path in ("/v1", "/v2/catalogs", "/nothing"):
        response = httpx.get(server.url + path)
        assert (response.status_code, response.json()["error"]) == (404, "not_found"), path
        assert response.headers["content-type"] == "application/json"


def methods_of(path: str) -> set[str]:
    return {o.method for o in CONTRACT.operations if o.path == path}


@pytest.mark.parametrize("path", sorted({o.path for o in CONTRACT.operations}))
def test_wrong_method(api, path):
    there = methods_of(path)
    url = re.sub(r"\{\w+\}", "x", path)
    for method in {"GET", "POST", "PUT", "PATCH", "DELETE"} - there:
        response = api.request(method, url)
        refused(response, 405, "method_not_allowed")
        allowed = {m.strip() for m in response.headers["allow"].split(",")}
        assert there <= allowed and method not in allowed


GOOD_IDS = ["abc", "A-Z_0.9", "x" * 128]
BAD_IDS = ["", "x" * 129, "a b", "a/b", "a;b", "ä"]


@pytest.mark.parametrize("given", GOOD_IDS)
def test_a_request_id_is_kept(api, given):
    assert api.get("/catalogs", headers={"X-Request-Id": given}).headers["x-request-id"] == given
    assert api.get("/nothing", headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", BAD_IDS)
def test_a_bad_request_id_is_replaced(api, given):
    got = api.get("/catalogs", headers={"X-Request-Id": given.encode()}).headers["x-request-id"]
    assert got != given and uuid.UUID(got)


def test_request_ids_differ(api):
    assert api.get("/catalogs").headers["x-request-id"] != api.get("/catalogs").headers["x-request-id"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_answers_are_compressed_when_asked(server, lake, encoding):
    lake.append(*(lake.file() for _ in range(200)))
    url = f"{server.url}/v1{lake.table_url('t', 'scan')}"
    plain = httpx.get(url, headers={"Accept-Encoding": "identity"})
    with httpx.stream("GET", url, headers={"Accept-Encoding": encoding}) as packed:
        raw = b"".join(packed.iter_raw())
    assert packed.headers["content-encoding"] == encoding
    assert "accept-encoding" in packed.headers["vary"].lower()
    assert len(raw) < len(plain.content) / 3
    if encoding == "gzip":
        assert gzip.decompress(raw) == plain.content


def test_pages_outside_the_contract(server):
    live, health = httpx.get(f"{server.url}/livez"), httpx.get(f"{server.url}/healthz")
    assert (live.status_code, health.status_code) == (200, 200)
    contract = httpx.get(f"{server.url}/openapi.yaml")
    assert contract.text.startswith("openapi:") and "yaml" in contract.headers["content-type"]
    assert yaml.safe_load(contract.text)["paths"].keys() == CONTRACT.document["paths"].keys()
    docs = httpx.get(f"{server.url}/docs")
    assert docs.status_code == 200 and "text/html" in docs.headers["content-type"]
    for operation in CONTRACT.operations:
        assert operation.id in docs.text, f"/docs does not show {operation.id}"
    assert not re.search(r'(src|href)="https?://', docs.text), "/docs must work without the internet"


def test_metrics(server, lake):
    lake.append()
    lake.get_table("absent")
    text = httpx.get(f"{server.url}/metrics")
    assert text.status_code == 200 and text.headers["content-type"].startswith("text/plain")
    for line in text.text.splitlines():
        assert not line or line.startswith("#") or re.match(r"^[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})? [-+0-9.eEInfNa]+$", line), line
    names = {re.split(r"[{ ]", line)[0] for line in text.text.splitlines() if line and not line.startswith("#")}
    assert any(n.startswith("hoglake_") for n in names)
    assert lake.name in text.text, "per-catalog head"


def test_a_body_without_a_length_is_read(lake):
    body = json.dumps({"name": "chunked"}).encode()

    def chunks():
        for byte in body:
            yield bytes([byte])

    response = lake.api.post(lake.url("namespaces"), content=chunks(), headers={"content-type": "application/json"})
    ok(response, 201)


def test_content_types_with_parameters(lake):
    for n, content_type in enumerate(("application/json", "application/json; charset=utf-8", "Application/JSON")):
        body = json.dumps({"name": f"ct{n}"})
        response = lake.api.post(lake.url("namespaces"), content=body, headers={"content-type": content_type})
        ok(response, 201)


def test_maintenance_takes_an_empty_body(lake):
    for task in ("expire", "compact", "cleanup", "verify", "hydrate", "rehydrate"):
        for headers in ({}, {"content-type": "application/json"}):
            response = lake.api.post(lake.url("maintenance", task), content=b"", headers=headers)
            assert response.status_code == 200, response.text


def test_head_is_as_get_without_a_body(server):
    response = httpx.head(f"{server.url}/v1/catalogs")
    assert response.status_code == 200 and response.content == b""


def test_garbage_instead_of_http(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"\x16\x03\x01 not http at all\r\n\r\n")
        answer = raw.recv(4096)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{server.url}/livez").status_code == 200


# Repeating safely.


def keyed(key: str) -> dict:
    return {"Idempotency-Key": key}


def sessions(lake: Lake) -> dict:
    """A request for each mutating operation: (method, url, body)."""
    table_uuid = ok(lake.get_table())["table_uuid"]
    lake.table("doomed")
    ok(lake.post("namespaces", "ns", "views", json={"name": "doomed", "sql": "x"}), 201)
    return {
        "createCatalog": ("POST", "/catalogs", {"name": f"{lake.name[:61]}-x", "data_path": f"s3://lake/{lake.name}-x"}),
        "createNamespace": ("POST", lake.url("namespaces"), {"name": "made"}),
        "createTable": ("POST", lake.url("namespaces", "ns", "tables"), {"name": "made", "columns": COLUMNS}),
        "alterTable": ("POST", lake.table_url("t", "alter"), {"ops": [{"op": "add_column", "column": column("x", "int")}]}),
        "dropTable": ("DELETE", lake.table_url("doomed"), None),
        "createView": ("POST", lake.url("namespaces", "ns", "views"), {"name": "made", "sql": "x"}),
        "dropView": ("DELETE", lake.url("namespaces", "ns", "views", "doomed"), None),
        "commit": ("POST", lake.url("commit"), {"appends": [lake.appends(lake.file())]}),
        "patchCatalogOptions": ("PATCH", lake.url("options"), {"snapshot_retention_seconds": 77}),
        "commitConsumerOffset": ("PUT", lake.url("consumers", "c", "offsets", table_uuid), {"snapshot_id": 1}),
    }


REPEATABLE = [
    "createCatalog",
    "createNamespace",
    "createTable",
    "alterTable",
    "dropTable",
    "createView",
    "dropView",
    "commit",
    "patchCatalogOptions",
    "commitConsumerOffset",
]


def test_every_mutating_operation_takes_a_key():
    takes = {o.id for o in CONTRACT.operations if any(p["name"] == "Idempotency-Key" for p in o.parameters)}
    assert takes >= set(REPEATABLE)
    assert {o.id for o in CONTRACT.operations if o.method != "GET"} - takes == {"runVerify"}


@pytest.mark.parametrize("operation", REPEATABLE)
def test_a_repeated_request_gets_the_first_answer(lake, operation):
    method, url, body = sessions(lake)[operation]
    key = f"{operation}-{uuid.uuid4()}"
    first = lake.api.request(method, url, json=body, headers=keyed(key))
    assert first.is_success and "idempotent-replayed" not in first.headers, first.text
    head = lake.head()
    for _ in range(3):
        again = lake.api.request(method, url, json=body, headers=keyed(key))
        assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert again.headers["idempotent-replayed"] == "true"
    assert lake.head() == head
    other = lake.api.request(method, url, json=body, headers=keyed(key + "-other"))
    assert "idempotent-replayed" not in other.headers


@pytest.mark.parametrize("operation", [o for o in REPEATABLE if CONTRACT.by_id[o].body_schema])
def test_a_key_belongs_to_one_request(lake, operation):
    method, url, body = sessions(lake)[operation]
    key = f"{operation}-{uuid.uuid4()}"
    assert lake.api.request(method, url, json=body, headers=keyed(key)).is_success
    changed = dict(body)
    if "name" in body:
        changed["name"] = "changed"
    elif "appends" in body:
        changed["message"] = "changed"
    elif "ops" in body:
        changed["ops"] = [{"op": "add_column", "column": column("y", "int")}]
    elif "snapshot_id" in body:
        changed["snapshot_id"] = 2
    else:
        changed["snapshot_retention_seconds"] = 78
    with lake.unchanged():
        refused(lake.api.request(method, url, json=changed, headers=keyed(key)), 422, "validation", "Idempotency-Key")


def test_a_key_belongs_to_one_operation(lake):
    key = str(uuid.uuid4())
    ok(lake.post("namespaces", json={"name": "made"}, headers=keyed(key)), 201)
    with lake.unchanged():
        refused(lake.commit(appends=[lake.appends(lake.file())], headers=keyed(key)), 422, "validation", "Idempotency-Key")


def test_a_refused_request_keeps_no_key(lake):
    key = str(uuid.uuid4())
    good = {"appends": [lake.appends(lake.file())]}
    refused(lake.commit(appends=[lake.appends(lake.file(-1))], headers=keyed(key)), 422, "validation")
    snapshot = ok(lake.commit(**good, headers=keyed(key)))["snapshot_id"]
    assert ok(lake.commit(**good, headers=keyed(key)))["snapshot_id"] == snapshot == lake.head()


def test_keys_are_per_catalog(lake, api):
    key = str(uuid.uuid4())
    other = Lake(api, f"{lake.name[:60]}-o").create()
    ok(lake.post("namespaces", json={"name": "made"}, headers=keyed(key)), 201)
    ok(other.post("namespaces", json={"name": "made"}, headers=keyed(key)), 201)
    assert other.head() == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a b"])
def test_malformed_key(lake, key):
    with lake.unchanged():
        refused(lake.post("namespaces", json={"name": "x"}, headers=keyed(key)), 400, "bad_request", "Idempotency-Key")


def test_the_longest_key(lake):
    ok(lake.post("namespaces", json={"name": "x"}, headers=keyed("k" * 255)), 201)
