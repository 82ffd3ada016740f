"""The parts every benchmark stands on: a release build, a private Postgres, a server, and how busy the machine was."""
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
HOGLAKE = TARGET / "release" / "hoglake"
LOADER = TARGET / "release" / "hoglake-loader"


def build():
    if os.environ.get("HOGLAKE_BENCH_BUILT"):
        return
    say("building the release binaries")
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "hoglake", "-p", "hoglake-loader"], cwd=ROOT, check=True)


def say(text):
    print(f"# {text}", file=sys.stderr, flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def cpu_free(seconds=0.3):
    """Share of the machine's cores that were idle just now."""
    def sample():
        fields = list(map(int, open("/proc/stat").readline().split()[1:]))
        return fields[3] + fields[4], sum(fields)
    idle0, all0 = sample()
    time.sleep(seconds)
    idle1, all1 = sample()
    return (idle1 - idle0) / max(1, all1 - all0)


def pg_bin():
    found = os.environ.get("HOGLAKE_PG_BIN")
    if not found:
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
        if versions:
            found = str(versions[-1])
        elif shutil.which("initdb"):
            found = str(Path(shutil.which("initdb")).resolve().parent)
    if not found or not (Path(found) / "pgbench").exists():
        sys.exit("bench needs the Postgres server programs and pgbench: apt-get install postgresql")
    return Path(found)


class Postgres:
    """A throw-away cluster with default durability, on a unix socket and loopback."""

    def __init__(self, root):
        self.bin, self.root, self.port = pg_bin(), Path(root), free_port()
        self.user = "postgres" if os.geteuid() == 0 else None

    def _as(self, *command):
        prefix = ["runuser", "-u", self.user, "--"] if self.user else []
        return [*prefix, *map(str, command)]

    def start(self):
        self.root.mkdir(parents=True, exist_ok=True)
        if self.user:
            shutil.chown(self.root, self.user)
            os.chmod(self.root, 0o755)
        data = self.root / "data"
        subprocess.run(self._as(self.bin / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-instructions"),
                       check=True, stdout=subprocess.DEVNULL, cwd="/")
        options = (f"-p {self.port} -k {self.root} -c listen_addresses=127.0.0.1 -c max_connections=400 "
                   "-c shared_buffers=1GB -c max_wal_size=4GB")
        subprocess.run(self._as(self.bin / "pg_ctl", "-D", data, "-w", "-l", self.root / "log", "-o", options, "start"),
                       check=True, stdout=subprocess.DEVNULL, cwd="/")
        return self

    def stop(self):
        subprocess.run(self._as(self.bin / "pg_ctl", "-D", self.root / "data", "-w", "-m", "fast", "stop"),
                       stdout=subprocess.DEVNULL, cwd="/")

    def env(self, database):
        return {**os.environ, "PGHOST": str(self.root), "PGPORT": str(self.port), "PGUSER": "postgres",
                "PGDATABASE": database}

    def url(self, database):
        """Over the unix socket, like the embedded Postgres."""
        return f"postgres:///{database}?user=postgres&host={self.root}&port={self.port}"

    def psql(self, database, sql, check=True):
        done = subprocess.run([self.bin / "psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-f", "-"], input=sql, text=True,
                              env=self.env(database), capture_output=True)
        if check and done.returncode:
            sys.exit(done.stderr[-2000:])
        return done.stdout.strip()

    def create(self, database):
        self.psql("postgres", f"create database {database}")

    def pgbench(self, database, script, clients, seconds, scale=1):
        """Transactions a second (times `scale`) and latency quantiles in ms."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "script.sql"
            path.write_text(script)
            done = subprocess.run(
                [self.bin / "pgbench", "-n", "-M", "prepared", "-f", path, "-c", str(clients), "-j", str(min(clients, 2)),
                 "-T", str(max(1, int(seconds))), "-l", "--log-prefix", f"{folder}/log"],
                env=self.env(database), capture_output=True, text=True)
            if done.returncode:
                sys.exit(done.stderr[-2000:])
            latencies = sorted(int(line.split()[2]) / 1000 for log in Path(folder).glob("log*") for line in open(log))
        rate = float(re.search(r"tps = ([\d.]+) \(without", done.stdout).group(1)) * scale
        return {"rate": rate, "p50_ms": quantile(latencies, .5), "p99_ms": quantile(latencies, .99)}


class Server:
    """`hoglake serve` on a database."""

    def __init__(self, url, **settings):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log", delete=False)
        env = {**os.environ, "HOGLAKE_DATABASE_URL": url, "HOGLAKE_LISTEN": self.address, **settings}
        started = time.monotonic()
        self.process = subprocess.Popen([HOGLAKE, "serve"], env=env, stdout=self.log, stderr=self.log)
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://{self.address}/v1/info", timeout=1).read()
                break
            if self.process.poll() is not None or time.monotonic() - started > 20:
                sys.exit("the server did not start:\n" + Path(self.log.name).read_text()[-2000:])
            time.sleep(0.005)
        self.ready_seconds = time.monotonic() - started

    def call(self, method, path, body=None, headers=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}/v1{path}", data, method=method,
                                         headers={"content-type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")

    def rss_mib(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) / 1024

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        os.unlink(self.log.name)


@contextlib.contextmanager
def postgres():
    folder = tempfile.mkdtemp(prefix="hoglake-bench-")
    cluster = Postgres(Path(folder) / "pg")
    os.chmod(folder, 0o755)
    try:
        yield cluster.start()
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def server(url, **settings):
    running = Server(url, **settings)
    try:
        yield running
    finally:
        running.stop()


def table(server, catalog, data_path, tables=1, columns=10, namespace="bench"):
    """A catalog with tables `t0`, `t1`, ... of `columns` long columns."""
    server.call("POST", "/catalogs", {"name": catalog, "data_path": data_path})
    server.call("POST", f"/catalogs/{catalog}/namespaces", {"name": namespace})
    for index in range(tables):
        server.call("POST", f"/catalogs/{catalog}/namespaces/{namespace}/tables",
                    {"name": f"t{index}", "columns": [{"name": f"c{i}", "type": "long"} for i in range(columns)]})


def load(server, catalog, data_path, **options):
    """Runs the loader; returns what it prints."""
    arguments = [LOADER, "--address", server.address, "--catalog", catalog, "--data-path", data_path]
    for key, value in options.items():
        arguments += [f"--{key.replace('_', '-')}", str(value)]
    result = json.loads(subprocess.run(list(map(str, arguments)), check=True, capture_output=True, text=True).stdout)
    if result["refused"]:
        sys.exit(f"{result['refused']} commits were refused: {result['first_refusal']}")
    return result


def quantile(values, q):
    return values[min(len(values) - 1, int(len(values) * q))] if values else None


class Report:
    """Lines of measure, peer, ratio and goal; prints as it goes. `finish` never fails because a machine is slow."""

    def __init__(self, title, out=None):
        self.rows, self.out = [], out
        print(f"\n{title}\n{'what':<44}{'ours':>12}{'peer':>12}{'ratio':>8}  goal", flush=True)

    def add(self, what, ours, peer, goal, higher_is_better=True, free=None):
        ratio = ours / peer if peer else float("nan")
        met = goal is None or (ratio >= goal if higher_is_better else ratio <= goal)
        sign = ">=" if higher_is_better else "<="
        self.rows.append({"what": what, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met, "cpu_free": free})
        busy = f"  cores free {free:.2f}" if free is not None else ""
        verdict = "no goal" if goal is None else f"{sign} {goal} {'ok' if met else 'MISSED'}"
        print(f"{what:<44}{ours:>12.4g}{peer:>12.4g}{ratio:>8.2f}  {verdict}{busy}", flush=True)

    def finish(self):
        met = sum(r["met"] for r in self.rows)
        print(f"{met} of {len(self.rows)} goals met")
        if self.out:
            Path(self.out).write_text(json.dumps(self.rows, indent=1))


class Peak(threading.Thread):
    """Watches how much memory a process has had at most. What the system tells when it has ended would include the memory
    of this script, from which it was forked."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.status, self.mib = f"/proc/{process.pid}/status", 0
        self.start()

    def run(self):
        while True:
            try:
                found = re.search(r"VmHWM:\s+(\d+) kB", Path(self.status).read_text())
            except OSError:
                return
            if not found:  # it has ended and waits to be asked for its exit code
                return
            self.mib = max(self.mib, int(found[1]) / 1024)
            time.sleep(0.005)
