"""The restore drill of docs/OPERATIONS.md, on a real Postgres with WAL archiving: commit, archive, destroy, restore to a
moment, check against the bucket, read the rows."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import duckdb
import duckdb_extension_httpfs
import pyarrow as pa
import pytest
from pyhoglake import HoglakeClient, S3Config

from lake import Lake, client, ok
from readers import key, multiset, read
from server import BINARY, Server, free_port

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("note", pa.string())])
QUIET = {f"HOGLAKE_{task}_INTERVAL_MS": "0" for task in ("HYDRATOR", "EXPIRY", "CLEANUP", "COMPACTION")}


def programs() -> pathlib.Path:
    found = os.environ.get("HOGLAKE_PG_BIN")
    if found:
        return pathlib.Path(found)
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    return versions[-1] if versions else pathlib.Path(shutil.which("initdb")).resolve().parent


class Postgres:
    """A cluster of an operator's own: archives its WAL, and can be restored from a base backup."""

    def __init__(self, root: pathlib.Path):
        self.root, self.port, self.bin = root, free_port(), programs()
        self.data, self.archive, self.base = root / "data", root / "archive", root / "base"
        self.archive.mkdir()
        root.chmod(0o755)
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if self.user:
            for folder in (root, self.archive):
                shutil.chown(folder, "postgres")

    def run(self, program: str, *arguments, **kwargs) -> str:
        command = [*self.user, str(self.bin / program), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", timeout=120, **kwargs)
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}{self.log()}"
        return done.stdout.strip()

    def log(self) -> str:
        log = self.root / "log"
        return log.read_text()[-3000:] if log.exists() else ""

    def create(self):
        self.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "--no-instructions")
        settings = f"archive_mode = on\narchive_command = 'test ! -f {self.archive}/%f && cp %p {self.archive}/%f.part && mv {self.archive}/%f.part {self.archive}/%f'\n"
        self.configure(settings)

    def configure(self, settings: str):
        with (self.data / "postgresql.auto.conf").open("a") as conf:
            conf.write(settings)

    def start(self):
        options = f"-p {self.port} -k {self.root} -c listen_addresses=127.0.0.1 -c unix_socket_permissions=0777"
        # Not captured: the server would keep the pipe open.
        command = [*self.user, self.bin / "pg_ctl", "-D", self.data, "-w", "-t", "60", "-l", self.root / "log", "-o", options, "start"]
        started = subprocess.run(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", timeout=90)
        assert started.returncode == 0, self.log()

    def stop(self, mode: str = "fast"):
        if (self.data / "postmaster.pid").exists():
            self.run("pg_ctl", "-D", self.data, "-w", "-m", mode, "stop")

    def sql(self, text: str, database: str = "lake") -> str:
        arguments = ["-XqAt", "-v", "ON_ERROR_STOP=1", "-h", self.root, "-p", self.port, "-U", "postgres", "-d", database]
        return self.run("psql", *arguments, "-c", text)

    @property
    def url(self) -> str:
        return f"postgres://postgres@127.0.0.1:{self.port}/lake"

    def backup(self):
        self.run("pg_basebackup", "-h", self.root, "-p", self.port, "-U", "postgres", "-D", self.base, "-c", "fast", "-X", "none")

    def mark(self, name: str):
        """A moment that can be restored to, and everything up to it in the archive."""
        self.sql(f"select pg_create_restore_point('{name}')")
        wanted = self.sql("select pg_walfile_name(pg_switch_wal())")
        deadline = time.monotonic() + 60
        while not (self.archive / wanted).exists():
            assert time.monotonic() < deadline, f"{wanted} was not archived: {self.log()}"
            time.sleep(0.05)

    def destroy(self):
        self.stop("immediate")
        shutil.rmtree(self.data)

    def restore(self, target: str, action: str):
        """Puts the base backup in place, and replays the archive up to the restore point `target`."""
        shutil.copytree(self.base, self.data, symlinks=True)
        self.data.chmod(0o700)
        if self.user:
            subprocess.run(["chown", "-R", "postgres:", str(self.data)], check=True)
        self.configure(
            f"restore_command = 'cp {self.archive}/%f %p'\nrecovery_target_name = '{target}'\n"
            f"recovery_target_action = '{action}'\n"
        )
        (self.data / "recovery.signal").touch()
        if self.user:
            shutil.chown(self.data / "recovery.signal", "postgres")
        self.start()

    def wait_until(self, condition: str):
        deadline = time.monotonic() + 60
        while self.sql(f"select {condition}") != "t":
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.1)


@pytest.fixture
def postgres():
    root = pathlib.Path(tempfile.mkdtemp(prefix="hoglake-drill-"))
    cluster = Postgres(root)
    cluster.create()
    cluster.start()
    yield cluster
    cluster.stop("immediate")
    shutil.rmtree(root)


class Catalog(Server):
    """`hoglake serve` on the operator's Postgres and somebody else's bucket."""

    def __init__(self, postgres: Postgres, bucket: Server):
        keys = {"HOGLAKE_S3_ACCESS_KEY": "hoglake", "HOGLAKE_S3_SECRET_KEY": "hoglake123"}
        self.store = {"HOGLAKE_S3_ENDPOINT": f"http://{bucket.s3_endpoint}", **keys}
        small = {"HOGLAKE_COMPACTION_TARGET_BYTES": "1048576"}
        super().__init__(env={"HOGLAKE_DATABASE_URL": postgres.url, **self.store, **small, **QUIET})

    def command(self) -> list:
        return [BINARY, "serve", "--listen", f"127.0.0.1:{self.port}"]

    def restore_check(self, *arguments) -> tuple[int, dict]:
        """The command as an operator runs it."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOGLAKE_")}
        command = [BINARY, "restore-check", "drill", "--json", "--samples", "100", *arguments]
        done = subprocess.run(list(map(str, command)), env=env | self.store, capture_output=True, text=True, timeout=120)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def bucket():
    """Another server's object store: that server's own catalog is not used."""
    with Server() as running:
        yield running


@pytest.fixture
def s3(bucket) -> S3Config:
    endpoint = f"http://{bucket.s3_endpoint}"
    return S3Config(access_key="hoglake", secret_key="hoglake123", endpoint_override=endpoint, region="us-east-1")


@pytest.fixture
def duck(bucket):
    with duckdb.connect() as made:
        folder = pathlib.Path(duckdb_extension_httpfs.__file__).parent
        (extension,) = folder.rglob(f"v{duckdb.__version__}/httpfs.duckdb_extension")
        made.execute(f"LOAD '{extension}'")
        made.execute(
            "CREATE SECRET lake (TYPE s3, KEY_ID 'hoglake', SECRET 'hoglake123', REGION 'us-east-1', "
            f"ENDPOINT '{bucket.s3_endpoint}', URL_STYLE 'path', USE_SSL false)"
        )
        yield made


def append(table, *ids) -> int:
    return table.append(pa.table({"id": list(ids), "note": [f"n{i}" for i in ids]}, schema=SCHEMA)).snapshot_id


def paths(report: dict, kind: str) -> set[str]:
    found = report.get(kind) or report["unlisted"][kind]
    return {sample["path"] for sample in found.get("samples", [])}


def test_a_catalog_is_restored_to_a_moment_and_proved_whole(postgres, bucket, s3, duck):
    postgres.sql("create database lake", "postgres")
    filesystem, replica = s3.filesystem(), {}

    # Before the disaster.
    with Catalog(postgres, bucket) as server, HoglakeClient(server.url, s3=s3) as hog, client(server.url) as api:
        lake, drill = Lake(api, "drill"), hog.create_catalog("drill", "s3://lake/drill")
        table = drill.create_namespace("ns").create_table("t", SCHEMA)
        offset = lake.url("consumers", "feed", "offsets", table.table_uuid)
        for n in range(4):
            append(table, n * 10, n * 10 + 1)
        postgres.backup()
        # After the backup, so that it comes back from the archive alone.
        moment = append(table, 100, 101)
        ok(api.put(offset, json={"snapshot_id": moment}))
        rows, needed = read(table, filesystem, duck), {f.path for f in table.files()}
        assert len(rows) == 10 and len(needed) == 5
        assert server.restore_check("--server", server.url)[1]["status"] == "whole"
        postgres.mark("moment")

        time.sleep(1.1)  # object stores date objects to the second
        lost = append(table, 200, 201)
        other = drill.namespace("ns").create_table("u", SCHEMA)
        append(other, 1, 2, 3)
        replica = {path: filesystem.open_input_stream(key(path)).read() for path in needed}
        assert ok(api.post(lake.url("maintenance", "compact"), params={"batch": 10}))["files_in"] == 6
        drill.set_retention(1)
        time.sleep(1.2)
        ok(api.put(offset, json={"snapshot_id": append(table, 300)}))
        drill.expire()
        assert ok(api.post(lake.url("maintenance", "cleanup")))["removed"] == 6
        written_since = {f.path for t in (table, other) for f in t.files()}
        postgres.mark("end")

    # The end of the archive is whole, but not what we want.
    postgres.destroy()
    postgres.restore("end", "pause")
    status, report = server.restore_check("--database-url", postgres.url)
    assert (status, report["status"]) == (0, "whole"), report
    assert report["listed"]["objects"] == len(written_since)

    # The moment lacks what clean-up has deleted since. The standby is asked before it is promoted.
    postgres.destroy()
    postgres.restore("moment", "pause")
    status, report = server.restore_check("--database-url", postgres.url)
    assert (status, report["status"], report["head_snapshot_id"]) == (3, "damaged", moment), report
    assert paths(report, "missing") == needed
    assert {sample["table"] for sample in report["missing"]["samples"]} == {"ns.t"}
    assert paths(report, "orphans") == written_since
    assert report["unlisted"]["orphans_after_head"]["objects"] == len(written_since)

    # The objects come back from a replica of the bucket: now the moment can be had.
    for path, content in replica.items():
        with filesystem.open_output_stream(key(path)) as stream:
            stream.write(content)
    status, report = server.restore_check("--database-url", postgres.url)
    assert (status, report["status"], report["listed"]["objects"]) == (4, "orphans", 5), report
    assert paths(report, "orphans") == written_since
    postgres.sql("select pg_wal_replay_resume()")
    postgres.wait_until("not pg_is_in_recovery()")

    with Catalog(postgres, bucket) as server, HoglakeClient(server.url, s3=s3) as hog, client(server.url) as api:
        lake, table = Lake(api, "drill"), hog.catalog("drill").namespace("ns").table("t")
        assert multiset(read(table, filesystem, duck)) == multiset(rows), "row ids included"
        assert [t["name"] for t in ok(lake.get("namespaces", "ns", "tables"))] == ["t"], "the other one came later"
        lake.verify(deep="true")
        # Consumers resume from the moment. Snapshot and row ids of what was lost are given again, to other rows.
        assert ok(api.get(offset))["committed_snapshot"] == moment == lake.head()
        assert append(table, 400) == lost
        assert max(read(table, filesystem, duck), key=lambda r: r["_row_id"]) == {"id": 400, "note": "n400", "_row_id": 10}
        status, report = server.restore_check("--server", server.url)
        assert (status, report["listed"]["objects"], paths(report, "orphans")) == (4, 6, written_since)
        for path in written_since:
            assert filesystem.get_file_info(key(path)).is_file, "it deletes nothing"
