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
        settings = f"archive_mode = on\narchive_command = 'test ! -f {self.archive}/%f && cp %p {self.archive}/%f'\n"
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


def restore_check(server, *arguments) -> tuple[int, dict]:
    """The command as an operator runs it, on the bucket of `server`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOGLAKE_")}
    env |= {
        "HOGLAKE_S3_ENDPOINT": f"http://{server.s3_endpoint}",
        "HOGLAKE_S3_ACCESS_KEY": "hoglake",
        "HOGLAKE_S3_SECRET_KEY": "hoglake123",
    }
    command = [BINARY, "restore-check", "drill", "--json", *arguments]
    done = subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def engines(server):
    """pyhoglake and DuckDB on `server` and its bucket."""
    s3 = S3Config(access_key="hoglake", secret_key="hoglake123", endpoint_override=f"http://{server.s3_endpoint}", region="us-east-1")
    duck = duckdb.connect()
    folder = pathlib.Path(duckdb_extension_httpfs.__file__).parent
    (extension,) = folder.rglob(f"v{duckdb.__version__}/httpfs.duckdb_extension")
    duck.execute(f"LOAD '{extension}'")
    duck.execute(
        "CREATE SECRET lake (TYPE s3, KEY_ID 'hoglake', SECRET 'hoglake123', REGION 'us-east-1', "
        f"ENDPOINT '{server.s3_endpoint}', URL_STYLE 'path', USE_SSL false)"
    )
    return s3, duck


def append(table, *ids) -> int:
    return table.append(pa.table({"id": list(ids), "note": [f"n{i}" for i in ids]}, schema=SCHEMA)).snapshot_id


def objects(report: dict, kind: str) -> int:
    return (report.get(kind) or report["unlisted"][kind])["objects"]


def test_a_catalog_is_restored_to_a_moment_and_proved_whole(postgres):
    postgres.sql("create database lake", "postgres")
    server = Server(env={"HOGLAKE_DATABASE_URL": postgres.url, "HOGLAKE_COMPACTION_TARGET_BYTES": "1048576", **QUIET})
    with server:
        s3, duck = engines(server)
        filesystem = s3.filesystem()
        with HoglakeClient(server.url, s3=s3) as hog, client(server.url) as api:
            drill = hog.create_catalog("drill", "s3://lake/drill")
            table = drill.create_namespace("ns").create_table("t", SCHEMA)
            lake = Lake(api, "drill")
            for n in range(4):
                append(table, n * 10, n * 10 + 1)
            postgres.backup()

            # After the backup, so that it comes back from the archive alone.
            append(table, 100, 101)
            uuid = table.table_uuid
            ok(api.put(lake.url("consumers", "feed", "offsets", uuid), json={"snapshot_id": lake.head()}))
            moment, rows = lake.head(), multiset(read(table, filesystem, duck))
            at_the_moment = {f.path for f in table.files()}
            assert len(rows) == 10
            assert restore_check(server, "--server", server.url)[1]["status"] == "whole"
            time.sleep(1.1)  # object stores date objects to the second
            postgres.mark("moment")

            # What the restore will take back: rows, a table, an offset. Nothing that the moment needs goes.
            lost = append(table, 200, 201)
            later = {f.path for f in table.files()} - at_the_moment
            append(drill.namespace("ns").create_table("u", SCHEMA), 1, 2, 3)
            ok(api.put(lake.url("consumers", "feed", "offsets", uuid), json={"snapshot_id": lost}))
            postgres.mark("harmless")

            # And this destroys: all files are merged, the inputs expire, and clean-up deletes them.
            assert ok(lake.api.post(lake.url("maintenance", "compact"), params={"batch": 10}))["files_in"] == 6
            drill.set_retention(1)
            time.sleep(1.2)
            append(table, 300)
            drill.expire()
            assert ok(lake.api.post(lake.url("maintenance", "cleanup")))["removed"] == 6
            ok(lake.api.post(lake.url("maintenance", "verify"), params={"deep": "true"}))
            # Kept by the bucket's versions, say.
            saved = dict.fromkeys(sorted(at_the_moment))
        postgres.mark("end")
        # The server goes down together with its database; the bucket stays as it is.
        assert server.stop() == 0
        postgres.destroy()

        server.env = {**server.env}
        check_a_standby_before_it_is_promoted(postgres, server, at_the_moment, later, moment)
        with HoglakeClient(server.url, s3=s3) as hog, client(server.url) as api:
            read_what_was_restored(hog, Lake(api, "drill"), filesystem, duck, rows, moment, lost, saved)


def check_a_standby_before_it_is_promoted(postgres, server, at_the_moment, later, moment):
    postgres.restore("moment", "pause")
    postgres.wait_until("pg_is_in_recovery() and pg_get_wal_replay_pause_state() = 'paused'")
    # Only the bucket: `dev` would migrate, and a standby takes no writes.
    with Bucket(server):
        status, report = restore_check(server, "--database-url", postgres.url, "--samples", 100)
    assert (status, report["status"], report["head_snapshot_id"]) == (3, "damaged", moment)
    missing = report["missing"]
    assert {sample["path"] for sample in missing["samples"]} == at_the_moment, "clean-up has deleted what this moment needs"
    assert {sample["table"] for sample in missing["samples"]} == {"ns.t"}
    # What was written after the moment: the file of a lost commit is gone with its inputs, its successors are orphans.
    assert objects(report, "orphans") == report["unlisted"]["orphans_after_head"]["objects"] >= 3
    assert not later & {sample["path"] for sample in report["unlisted"]["orphans"]["samples"]}
    postgres.destroy()

    # A later moment is whole.
    postgres.restore("end", "pause")
    postgres.wait_until("pg_is_in_recovery() and pg_get_wal_replay_pause_state() = 'paused'")
    with Bucket(server):
        status, report = restore_check(server, "--database-url", postgres.url)
    assert (status, report["status"]) == (0, "whole"), report
    postgres.destroy()
