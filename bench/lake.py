"""Lakes to maintain: an object store of its own process, Parquet files of ten mixed columns, and catalogs filled by SQL."""
import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import machine

VENV = machine.TARGET / "bench-venv"


def inside_venv(name):
    """Runs this benchmark again inside a virtual environment with the peers (target/bench-venv)."""
    python, installed = VENV / "bin" / "python", VENV / "requirements.txt"
    requirements = Path(__file__).parent / "requirements.txt"
    if not installed.exists() or installed.read_text() != requirements.read_text():
        machine.say("installing the peers")
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", requirements], check=True)
        shutil.copy(requirements, installed)
    if Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [python, Path(__file__).parent / "run", name, *sys.argv[2:]])


class Store:
    """The object store of `hoglake dev`; its catalog is not used. Objects are files below `folder`."""

    def __init__(self, root):
        state = Path(root) / "store"
        env = {k: v for k, v in os.environ.items() if not k.startswith("HOGLAKE_")}
        env |= {"HOGLAKE_STATE_DIR": str(state), "HOGLAKE_LISTEN": "127.0.0.1:0", "HOGLAKE_S3_LISTEN": "127.0.0.1:0",
                "HOGLAKE_HYDRATOR_INTERVAL_MS": "0", "HOGLAKE_EXPIRY_INTERVAL_MS": "0", "HOGLAKE_CLEANUP_INTERVAL_MS": "0",
                "HOGLAKE_METRICS_INTERVAL_MS": "0"}
        self.process = subprocess.Popen([machine.HOGLAKE, "dev", "--json"], env=env, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, cwd="/")
        line = self.process.stdout.readline()
        if not line:
            sys.exit("the object store did not start")
        told = json.loads(line)
        self.endpoint, self.region = told["s3_endpoint"], told["s3_region"]
        self.key, self.secret = told["s3_access_key"], told["s3_secret_key"]
        self.folder = state / "objects" / "lake"

    def settings(self):
        """What a server needs to use it."""
        return {"HOGLAKE_S3_ENDPOINT": self.endpoint, "HOGLAKE_S3_REGION": self.region, "HOGLAKE_S3_ACCESS_KEY": self.key,
                "HOGLAKE_S3_SECRET_KEY": self.secret}

    def arrow(self):
        """pyarrow's client of it."""
        from pyarrow import fs
        return fs.S3FileSystem(access_key=self.key, secret_key=self.secret, region=self.region, endpoint_override=self.endpoint)

    def fill(self, folder, count):
        """Makes `count` objects of a kilobyte in `folder`, named as `seed` names files."""
        folder.mkdir(parents=True)
        body = self.folder / "body"
        for number in range(count):
            if number % 30_000 == 0:  # file systems bound the links to one file
                body.unlink(missing_ok=True)
                body.write_bytes(b"x" * 1000)
            os.link(body, folder / name_of(number))

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def delete_objects(self, keys):
        """Bare DeleteObjects requests, a thousand keys each, one after the other on one connection."""
        host = self.endpoint.removeprefix("http://")
        connection = http.client.HTTPConnection(host)
        for begin in range(0, len(keys), 1000):
            page = keys[begin:begin + 1000]
            body = ("<Delete><Quiet>true</Quiet>" + "".join(f"<Object><Key>{k}</Key></Object>" for k in page) + "</Delete>").encode()
            connection.request("POST", "/lake?delete=", body, self._signed(host, body))
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or b"<Error>" in text:
                sys.exit(f"DeleteObjects: {answer.status} {text[:500]}")
        connection.close()

    def _signed(self, host, body):
        """Headers of a `POST /lake?delete=`, signed by AWS's fourth version of signatures."""
        now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        headers = {"content-md5": md5, "host": host, "x-amz-content-sha256": digest, "x-amz-date": now}
        names = ";".join(headers)
        canonical = "POST\n/lake\ndelete=\n" + "".join(f"{k}:{v}\n" for k, v in headers.items()) + f"\n{names}\n{digest}"
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self.secret}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return headers | {"authorization": f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"}


@contextlib.contextmanager
def store():
    folder = tempfile.mkdtemp(prefix="hoglake-bench-store-")
    os.chmod(folder, 0o755)
    running = Store(folder)
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(folder, ignore_errors=True)


def maintain(task, url, catalog, *arguments, **settings):
    """`hoglake TASK CATALOG --json` on a database; what it prints, and the seconds and peak MiB it took."""
    env = {**os.environ, "HOGLAKE_DATABASE_URL": url, **settings}
    started = time.monotonic()
    process = subprocess.Popen([machine.HOGLAKE, task, catalog, "--json", *arguments], env=env, stdout=subprocess.PIPE, text=True)
    peak = machine.Peak(process)
    printed = process.stdout.read()
    process.wait()
    seconds = time.monotonic() - started
    if process.returncode not in (0, 3):
        sys.exit(f"hoglake {task}: exit code {process.returncode}")
    return json.loads(printed), seconds, peak.mib


COLUMNS = [("id", "long"), ("ts", "timestamp"), ("user_id", "long"), ("kind", "string"), ("amount", "double"),
           ("price", "decimal"), ("flag", "boolean"), ("name", "string"), ("payload", "string"), ("day", "date")]


def mixed(rows, seed, ids=None):
    """Rows of ten mixed columns; ids as given, else from 0 on."""
    import numpy as np
    import pyarrow as pa
    random = np.random.default_rng(seed)
    ids = np.arange(rows, dtype=np.int64) if ids is None else ids
    kinds = pa.array(["view", "click", "buy", "return", "signup", "login", "logout", "error"])
    names = pa.array([f"item-{i:05d}" for i in range(5000)])
    words = np.zeros((rows, 2), dtype=np.int64)
    words[:, 0] = random.integers(0, 10_000_000, rows)
    price = pa.Array.from_buffers(pa.decimal128(18, 2), rows, [None, pa.py_buffer(words.tobytes())])
    text = random.bytes(rows * 16).hex()
    columns = [
        pa.array(ids), pa.array(1_700_000_000_000_000 + ids * 1000 + random.integers(0, 1000, rows)).cast(pa.timestamp("us")),
        pa.array(random.integers(0, 1_000_000, rows)), kinds.take(pa.array(random.integers(0, 8, rows))),
        pa.array(random.gamma(2.0, 50.0, rows)), price, pa.array(random.random(rows) < 0.3),
        names.take(pa.array(random.integers(0, 5000, rows))), pa.array([text[i * 32:i * 32 + 32] for i in range(rows)]),
        pa.array((19000 + ids // 86400 % 365).astype(np.int32)).cast(pa.date32())]
    fields = [pa.field(name, column.type, metadata={"PARQUET:field_id": str(number + 1)})
              for number, ((name, _), column) in enumerate(zip(COLUMNS, columns))]
    return pa.table(columns, schema=pa.schema(fields))


def table(server, catalog, data_path, sort=()):
    """A catalog with a table `bench.t0` of the ten columns, sorted by those named in `sort`."""
    server.call("POST", "/catalogs", {"name": catalog, "data_path": data_path})
    server.call("POST", f"/catalogs/{catalog}/namespaces", {"name": "bench"})
    columns = [{"name": name, "type": kind} | ({"type_params": {"precision": 18, "scale": 2}} if kind == "decimal" else {})
               for name, kind in COLUMNS]
    tables = f"/catalogs/{catalog}/namespaces/bench/tables"
    server.call("POST", tables, {"name": "t0", "columns": columns})
    if sort:
        ids = {name: number + 1 for number, (name, _) in enumerate(COLUMNS)}
        fields = [{"source_field_id": ids[name], "direction": "asc", "null_order": "nulls_last"} for name in sort]
        server.call("POST", f"{tables}/t0/alter", {"ops": [{"op": "set_sort_order", "sort_fields": fields}]})


def register(server, catalog, files):
    """Appends files, which are (path, rows, bytes, footer bytes), without statistics."""
    entries = [dict(zip(("path", "record_count", "file_size_bytes", "footer_size"), file)) for file in files]
    server.call("POST", f"/catalogs/{catalog}/commit", {"appends": [{"namespace": "bench", "table": "t0", "files": entries}]})


# A million files by default, each with the statistics of ten columns; `dead` of them ended in the snapshot after theirs.
SEED = """
set search_path = hoglake;
set synchronous_commit = off;
-- what is there already is as old as the rest: time never goes back
update snapshot s set snapshot_time = clock_timestamp() - interval '1 day' + s.snapshot_id * interval '10 milliseconds'
from catalog c where c.name = '{catalog}' and s.catalog_id = c.catalog_id;
insert into snapshot (catalog_id, snapshot_id, snapshot_time, schema_version)
select c.catalog_id, s, clock_timestamp() - interval '1 day' + s * interval '10 milliseconds', 2
from catalog c, generate_series(c.head_snapshot + 1, {files} + 1) s where c.name = '{catalog}';
insert into snapshot_change (catalog_id, snapshot_id, ordinal, kind, object_id)
select c.catalog_id, s, 1, 'table_inserted_into', 1
from catalog c, generate_series(c.head_snapshot + 1, {files} + 1) s where c.name = '{catalog}';
insert into data_file (catalog_id, data_file_id, table_id, begin_snapshot, end_snapshot, path, record_count,
                       file_size_bytes, footer_size, row_id_start, stats_state)
select c.catalog_id, 1000000 + f, 1, f + 1, case when f < {dead} then f + 2 end,
       c.data_path || '/data/bench/t0/' || md5(f::text) || '.parquet', 1000, 4194304, 4096, f * 1000::bigint, 'provided'
from catalog c, generate_series(0, {files} - 1) f where c.name = '{catalog}';
insert into file_statistics (catalog_id, data_file_id, field_ids, value_counts, null_counts, nan_counts, sizes_bytes,
                             lower_bounds, upper_bounds)
select c.catalog_id, 1000000 + f, '{{1,2,3,4,5,6,7,8,9,10}}', array_fill(1000::bigint, '{{10}}'),
       array_fill(0::bigint, '{{10}}'), array_fill(null::bigint, '{{10}}'), array_fill(400000::bigint, '{{10}}'),
       array_fill(int8send(f), '{{10}}'), array_fill(int8send(f + 1000), '{{10}}')
from catalog c, generate_series(0, {files} - 1) f where c.name = '{catalog}';
update catalog set head_snapshot = {files} + 1, next_file_id = 1000000 + {files}, live_file_count = {files} - {dead}
where name = '{catalog}';
update table_counter set next_row_id = {files} * 1000::bigint, record_count = ({files} - {dead}) * 1000::bigint,
  file_count = {files} - {dead}, file_size_bytes = ({files} - {dead}) * 4194304::bigint
where table_id = 1 and catalog_id = (select catalog_id from catalog where name = '{catalog}');
"""


def seed(pg, database, catalog, files, dead=0):
    """Fills a catalog made by `table` with a snapshot a file."""
    pg.psql(database, SEED.format(catalog=catalog, files=files, dead=dead))
    pg.psql(database, "vacuum analyze")
    pg.psql(database, "checkpoint")


def name_of(number):
    """The file name that `seed` gives to file `number`."""
    return hashlib.md5(str(number).encode()).hexdigest() + ".parquet"
