"""Fixtures: one real server for the whole run, one fresh catalog a test."""

from __future__ import annotations

import itertools
import pathlib
import re

import duckdb
import duckdb_extension_httpfs
import pytest
from pyhoglake import HoglakeClient, S3Config

from contract import CONTRACT, CONVERSION, judged
from lake import Lake, client
from server import Server

S3_KEY, S3_SECRET = "hoglake", "hoglake123"
NUMBERS = itertools.count(1)


def pytest_addoption(parser):
    parser.addoption(
        "--whole-contract",
        action="store_true",
        help="fail unless every operation of the contract was asked for, and every refusal it declares was seen",
    )


def everything() -> list[tuple]:
    return [(contract, operation) for contract in (CONTRACT, CONVERSION) for operation in contract.operations]


def unasked() -> list[str]:
    """Operations without a success, and statuses that a client can provoke but no test did."""
    # Provoking these takes a broken server, or (410 on some) an expired history.
    beyond = {"401", "403", "408", "410", "500", "503"}
    missing = []
    for contract, operation in everything():
        seen = {str(status) for status in contract.seen[operation.id]}
        answered = any(status[0] == "2" for status in seen)
        if not answered:
            missing.append(f"{operation.id}: no success ({', '.join(sorted(seen)) or 'never asked for'})")
        provocable = {"400", "404", "409", "413", "422"} & set(operation.responses) if operation.body_schema else set()
        missing += [f"{operation.id}: never {status}" for status in sorted(provocable - seen - beyond)]
    return missing


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if session.config.getoption("--whole-contract") and exitstatus == pytest.ExitCode.OK and unasked():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config):
    if config.getoption("--whole-contract"):
        terminalreporter.section("the contract")
        missing = unasked()
        for line in missing:
            terminalreporter.line(line)
        asked = sum(1 for contract, operation in everything() if contract.seen[operation.id])
        terminalreporter.line(f"{asked} of {len(everything())} operations asked for, {len(missing)} gaps")


@pytest.fixture(scope="session")
def server():
    with Server() as running:
        yield running
        assert running.process.poll() is None, f"the server ended before its time:\n{running.tail()}"
        code, faults = running.stop(), running.faults()
        assert code == 0, f"the server ended with {code}:\n{running.tail()}"
        assert not faults, "the server's log tells of faults:\n" + "\n".join(faults[:20])


@pytest.fixture(scope="session")
def api(server):
    with client(server.url) as http:
        yield http


@pytest.fixture
def name(request) -> str:
    """A catalog name of this test's own."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"c{next(NUMBERS)}-{words}"[:63].rstrip("-")


@pytest.fixture
def bare(api, name):
    """A fresh catalog, whose invariants are checked when the test is over."""
    lake = Lake(api, name).create()
    yield lake
    lake.verify()


@pytest.fixture
def lake(bare) -> Lake:
    """A fresh catalog with namespace `ns` and table `ns.t`: head is 2."""
    bare.namespace()
    bare.table()
    return bare


@pytest.fixture(scope="session")
def s3(server) -> S3Config:
    return S3Config(
        access_key=S3_KEY, secret_key=S3_SECRET, endpoint_override=f"http://{server.s3_endpoint}", region="us-east-1"
    )


@pytest.fixture(scope="session")
def filesystem(s3):
    """The lake's object store, for pyarrow. Keys begin with the bucket."""
    return s3.filesystem()


@pytest.fixture(scope="session")
def hog(server, s3):
    """pyhoglake as published; its traffic is held against the contract too."""
    with HoglakeClient(server.url, s3=s3) as made:
        made._http.event_hooks["response"].append(judged)
        yield made


@pytest.fixture
def catalog(hog, api, name):
    """A fresh pyhoglake catalog, whose invariants are checked when the test is over."""
    yield hog.create_catalog(name, f"s3://lake/{name}")
    Lake(api, name).verify()


@pytest.fixture(scope="session")
def duck(server):
    """DuckDB that reads the lake's object store."""
    made = duckdb.connect()
    folder = pathlib.Path(duckdb_extension_httpfs.__file__).parent
    (extension,) = folder.rglob(f"v{duckdb.__version__}/httpfs.duckdb_extension")
    made.execute(f"LOAD '{extension}'")
    made.execute(
        f"CREATE SECRET lake (TYPE s3, KEY_ID '{S3_KEY}', SECRET '{S3_SECRET}', REGION 'us-east-1', "
        f"ENDPOINT '{server.s3_endpoint}', URL_STYLE 'path', USE_SSL false)"
    )
    yield made
    made.close()
