"""Tokens and scopes: every operation of the contract, asked for by everyone who may not."""

import json
import re
import subprocess

import httpx
import pytest

from contract import CONTRACT
from lake import Lake, client, ok, refused
from server import BINARY, Server

SCOPES = {
    "admin": ["*:admin"],
    "reader": ["mine:read"],
    "writer": ["mine:write"],
    "stranger": ["other:admin"],
}
# What a token for the catalog of the path must be allowed; the rest asks for all catalogs, or none in particular.
READS = {o.id for o in CONTRACT.operations if o.method == "GET" and "{catalog}" in o.path}
ADMINISTERS = {
    "patchCatalogOptions",
    "runExpiry",
    "runCompaction",
    "runCleanup",
    "runVerify",
    "runHydration",
    "runRehydrate",
    "createPublication",
    "dropPublication",
    "resumePublication",
}
WRITES = {o.id for o in CONTRACT.operations if "{catalog}" in o.path} - READS - ADMINISTERS


@pytest.fixture(scope="module")
def tokens(tmp_path_factory) -> dict[str, str]:
    made = {}
    for name, scopes in SCOPES.items():
        arguments = [argument for scope in scopes for argument in ("--scope", scope)]
        run = subprocess.run([BINARY, "token", "new", "--name", name, *arguments, "--json"], capture_output=True, check=True)
        made[name] = json.loads(run.stdout)
    return made


@pytest.fixture(scope="module")
def guarded(tokens, tmp_path_factory):
    file = tmp_path_factory.mktemp("tokens") / "tokens"
    file.write_text("# who may what\n" + "".join(t["line"] + "\n" for t in tokens.values()))
    with Server(flags=("--tokens-file", file)) as server:
        with client(server.url, headers={"Authorization": f"Bearer {tokens['admin']['token']}"}) as admin:
            lake = Lake(admin, "mine").create()
            lake.namespace()
            lake.table()
            Lake(admin, "other").create()
        yield server
        assert server.stop() == 0
        log = server.log.read_text()
        assert not [name for name, made in tokens.items() if made["token"] in log], "a token is in the log"


@pytest.fixture
def ask(guarded, tokens):
    def ask(operation, who: str | None, **kwargs) -> httpx.Response:
        url = operation.path.replace("{catalog}", "mine").replace("{namespace}", "ns").replace("{table}", "t")
        url = re.sub(r"\{\w+\}", "00000000-0000-4000-8000-000000000000", url)
        headers = {"Authorization": f"Bearer {tokens[who]['token']}"} if who else {}
        headers |= kwargs.pop("headers", {})
        body = kwargs.pop("json", {} if operation.body_schema else None)
        with client(guarded.url, headers=headers) as http:
            return http.request(operation.method, url, json=body, **kwargs)

    return ask


@pytest.mark.parametrize("operation", CONTRACT.operations, ids=str)
def test_nobody(ask, operation):
    response = ask(operation, None)
    refused(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("operation", CONTRACT.operations, ids=str)
def test_a_wrong_token(ask, operation):
    refused(ask(operation, None, headers={"Authorization": "Bearer wrong"}), 401, "unauthenticated")


@pytest.mark.parametrize("given", ["Basic YTpi", "Bearer", "bearer x y", "x", "é".encode("latin-1")])
def test_a_wrong_header(ask, given):
    response = ask(CONTRACT.by_id["listCatalogs"], None, headers={"Authorization": given})
    refused(response, 401, "unauthenticated")


@pytest.mark.parametrize("operation", [o for o in CONTRACT.operations if "{catalog}" in o.path], ids=str)
def test_a_stranger(ask, operation):
    refused(ask(operation, "stranger"), 403, "forbidden", "mine")


@pytest.mark.parametrize("operation", [o for o in CONTRACT.operations if o.id in WRITES | ADMINISTERS], ids=str)
def test_a_reader_changes_nothing(ask, operation):
    refused(ask(operation, "reader"), 403, "forbidden", "mine")


@pytest.mark.parametrize("operation", [o for o in CONTRACT.operations if o.id in ADMINISTERS], ids=str)
def test_a_writer_does_not_administer(ask, operation):
    refused(ask(operation, "writer"), 403, "forbidden", "admin")


@pytest.mark.parametrize("operation", [o for o in CONTRACT.operations if o.id in READS], ids=str)
@pytest.mark.parametrize("who", ["reader", "writer", "admin"])
def test_readers_read(ask, operation, who):
    assert ask(operation, who).status_code not in (401, 403)


@pytest.mark.parametrize("who", ["reader", "writer", "stranger"])
def test_only_an_administrator_of_all_makes_catalogs(ask, who):
    body = {"name": "new", "data_path": "s3://lake/new"}
    refused(ask(CONTRACT.by_id["createCatalog"], who, json=body), 403, "forbidden")


@pytest.mark.parametrize(("who", "seen"), [("admin", ["mine", "other"]), ("reader", ["mine"]), ("stranger", ["other"])])
def test_one_lists_what_one_may_read(ask, who, seen):
    assert [c["name"] for c in ok(ask(CONTRACT.by_id["listCatalogs"], who))] == seen


def test_a_catalog_that_is_not_there_looks_like_one_that_is_not_yours(guarded, tokens):
    with client(guarded.url, headers={"Authorization": f"Bearer {tokens['reader']['token']}"}) as http:
        refused(http.get("/catalogs/absent"), 403, "forbidden")
    with client(guarded.url, headers={"Authorization": f"bearer {tokens['admin']['token']}"}) as http:
        refused(http.get("/catalogs/absent"), 404, "not_found")


def test_probes_need_no_token(guarded):
    for path in ("/livez", "/healthz", "/openapi.yaml", "/docs"):
        assert httpx.get(guarded.url + path).status_code == 200
    assert httpx.get(guarded.url + "/metrics").status_code == 401


def test_other_interfaces_need_authentication(tmp_path):
    run = subprocess.run(
        [BINARY, "serve", "--listen", "0.0.0.0:0", "--state-dir", tmp_path / "state"], capture_output=True, text=True, timeout=60
    )
    assert run.returncode != 0
    assert "HOGLAKE_TOKENS_FILE" in run.stderr or "HOGLAKE_ALLOW_ANONYMOUS" in run.stderr
    assert not (tmp_path / "state").exists(), "it made a state folder before it refused"
