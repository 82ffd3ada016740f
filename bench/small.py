"""What the server costs when nothing happens, and how soon it is there."""
import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

import machine


def embedded_start_seconds():
    """First start of `hoglake serve` with its own Postgres, folder to first answer."""
    folder = tempfile.mkdtemp(prefix="hoglake-bench-")
    os.chmod(folder, 0o755)
    port = machine.free_port()
    started = time.monotonic()
    process = subprocess.Popen([machine.HOGLAKE, "serve", "--state-dir", f"{folder}/state", "--listen", f"127.0.0.1:{port}"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while time.monotonic() - started < 60:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).read()
                return time.monotonic() - started
            except OSError:
                time.sleep(0.01)
        raise SystemExit("the embedded start took more than 60 s")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def main(argv):
    parser = argparse.ArgumentParser(prog="bench/run small")
    parser.add_argument("--json")
    args = parser.parse_args(argv)
    machine.build()
    report = machine.Report("Idle cost and start, against the goal itself", args.json)
    with machine.postgres() as pg:
        pg.create("lake")
        with machine.server(pg.url("lake")) as server:
            machine.table(server, "bench", "s3://lake/bench")
        ready = []
        for _ in range(5):
            with machine.server(pg.url("lake")) as server:
                ready.append(server.ready_seconds * 1000)
                server.call("GET", "/catalogs/bench/namespaces/bench/tables/t0/scan")
                time.sleep(1)
                idle = server.rss_mib()
        report.add("idle memory of serve (MiB)", idle, 40, 1, higher_is_better=False)
        report.add("ready on a migrated database (ms)", sorted(ready)[2], 300, 1, higher_is_better=False, free=machine.cpu_free())
    report.add("first start with its own Postgres (s)", embedded_start_seconds(), 5, 1, higher_is_better=False, free=machine.cpu_free())
    report.finish()
