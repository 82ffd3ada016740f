"""Requests for conversion that do not fit, and the words of every refusal: always an ErrorModel."""

import json
import subprocess

import pytest

from server import BINARY, Server
from test_bad_input import WRONG_TEXTS
from test_conversion import TABLE, ask, client, failed

RIGHT = ask("DELTA", "s3://lake/none", "ICEBERG", configurations={})
MISSING = object()


@pytest.fixture(scope="module")
def api(server):
    with client(server.url) as made:
        yield made


def changed(**fields) -> dict:
    body = RIGHT | {key.replace("_", "-"): value for key, value in fields.items()}
    return {key: value for key, value in body.items() if value is not MISSING}


BODIES = {
    **{f"no {field}": (changed(**{field: MISSING}), field) for field in RIGHT if field != "configurations"},
    **{f"{field} is null": (changed(**{field: None}), field) for field in RIGHT if field != "configurations"},
    **{f"{field} is a number": (changed(**{field: 7}), field) for field in RIGHT},
    **{f"{field} is an object": (changed(**{field: {"a": 1}}), field) for field in RIGHT},
    "a field too many": (changed(nope=1), "nope"),
    "an unknown source": (changed(source_format="ORC"), "ICEBERG, DELTA, HUDI, PARQUET"),
    "a catalog as source": (changed(source_format="HOGLAKE"), "source-format"),
    "a blank source": (changed(source_format=""), "source-format"),
    "an unknown target": (changed(target_formats=["ICEBERG", "PAIMON"]), "ICEBERG, DELTA, HUDI"),
    "a target that is none": (changed(target_formats=["PARQUET"]), "target-formats"),
    "the source as target": (changed(target_formats=["ICEBERG", "delta"]), "DELTA"),
    "no targets": (changed(target_formats=[]), "empty"),
    "targets that are no text": (changed(target_formats=[1]), "target-formats"),
    "targets that are text": (changed(target_formats="ICEBERG"), "target-formats"),
    "a blank name": (changed(source_table_name=""), "source-table-name"),
    "a long name": (changed(source_table_name="x" * 5000), "source-table-name"),
    "a name of two lines": (changed(source_table_name="a\nb"), "source-table-name"),
    "a relative path": (changed(source_table_path="a/b"), "source-table-path"),
    "an unknown key": (changed(configurations={"sync_mode": "full"}), "sync-mode"),
    "a key with a number": (changed(configurations={"sync-mode": 1}), "configurations"),
    "a secret that is a number": (changed(configurations={"s3.secret-access-key": 48151623}), "s3.secret-access-key"),
    "an unknown mode": (changed(configurations={"sync-mode": "x"}), "incremental or full"),
    "an unknown retention": (changed(configurations={"metadata-retention": "soon"}), "metadata-retention"),
    "half of a credential": (changed(configurations={"s3.access-key-id": "a"}), "belong together"),
    "a partition spec that is none": (changed(configurations={"partition-spec": "a"}), "column:VALUE"),
    "two data paths": (
        changed(source_data_path="s3://lake/a", configurations={"source-data-path": "s3://lake/b"}),
        "twice",
    ),
}


@pytest.mark.parametrize(("body", "fragment"), BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("headers", [{}, {"Prefer": "respond-async"}], ids=["now", "later"])
def test_what_does_not_fit_is_a_bad_request(api, body, fragment, headers):
    message = failed(api.post(TABLE, json=body, headers=headers), 400, "bad_request")
    assert fragment.replace("_", "-") in message, message


@pytest.mark.parametrize("text", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_what_cannot_be_read_is_a_bad_request(api, text):
    failed(api.post(TABLE, content=text, headers={"Content-Type": "application/json"}), 400, "bad_request")


def test_other_media_are_bad_requests(api):
    for headers in [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json", "Content-Encoding": "gzip"}]:
        failed(api.post(TABLE, content=json.dumps(RIGHT), headers=headers), 400, "bad_request")
    headers = {"Content-Type": "application/json", "Idempotency-Key": ""}
    failed(api.post(TABLE, content=json.dumps(RIGHT), headers=headers), 400, "bad_request")


def test_other_methods_and_places(api):
    for method in ["GET", "PUT", "DELETE", "PATCH"]:
        response = api.request(method, TABLE)
        failed(response, 405, "method_not_allowed")
        assert response.headers["allow"] == "POST"
    failed(api.post(f"{TABLE}/x"), 405, "method_not_allowed")
    for path in ["/v1/conversion", "/v1/conversion/", "/v1/conversion/tables", f"{TABLE}/", f"{TABLE}/a/b"]:
        failed(api.get(path), 404, "not_found")


def test_nothing_there_is_not_found(api):
    for source, path in [("DELTA", "s3://lake/none"), ("ICEBERG", "s3://lake/none/metadata"), ("HUDI", "s3a://lake/none")]:
        targets = [t for t in ["ICEBERG", "DELTA"] if t != source]
        failed(api.post(TABLE, json=ask(source, path, *targets)), 404, "table_not_found")
    failed(api.post(TABLE, json=ask("ICEBERG", "s3://lake/none/metadata/v1.metadata.json", "DELTA")), 404, "object_not_found")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    tokens = {}
    for name, scope in {"writer": "*:write", "reader": "*:read", "sales": "sales:admin"}.items():
        run = subprocess.run([BINARY, "token", "new", "--name", name, "--scope", scope, "--json"], capture_output=True, check=True)
        tokens[name] = json.loads(run.stdout)
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text("".join(token["line"] + "\n" for token in tokens.values()))
    with Server(flags=("--tokens-file", file, "--body-limit-bytes", "4096")) as server:
        yield server, {name: {"Authorization": f"Bearer {token['token']}"} for name, token in tokens.items()}


def test_tokens_and_scopes(guarded):
    server, headers = guarded
    with client(server.url) as api:
        response = api.post(TABLE, json=RIGHT)
        failed(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")
        failed(api.post(TABLE, json=RIGHT, headers={"Authorization": "Bearer nobody"}), 401, "unauthenticated")
        for name in ["reader", "sales"]:
            failed(api.post(TABLE, json=RIGHT, headers=headers[name]), 403, "forbidden", "*:write")
        failed(api.get(f"{TABLE}/x", headers=headers["sales"]), 403, "forbidden", "*:read")
        failed(api.get(f"{TABLE}/x"), 401, "unauthenticated")
        accepted = api.post(TABLE, json=RIGHT, headers=headers["writer"] | {"Prefer": "respond-async, wait=20"})
        failed(accepted, 404, "table_not_found")
        large = RIGHT | {"configurations": {"sync-mode": "x" * 5000}}
        failed(api.post(TABLE, json=large, headers=headers["writer"]), 413, "payload_too_large")
