"""Runs a real `hoglake dev`: the binary, its own Postgres, its own S3."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

import httpx

ROOT = pathlib.Path(__file__).parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = pathlib.Path(os.environ.get("HOGLAKE_BIN", TARGET / "debug" / "hoglake"))
READY_WITHIN_SECONDS = 90


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@dataclass
class Server:
    """One running server. Its folder outlives `stop`, so that a test may start it again on the same state."""

    state: pathlib.Path = field(default_factory=lambda: pathlib.Path(tempfile.mkdtemp(prefix="hoglake-e2e-")))
    flags: tuple = ()
    env: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    s3_port: int = field(default_factory=free_port)
    process: subprocess.Popen | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def s3_endpoint(self) -> str:
        return f"127.0.0.1:{self.s3_port}"

    @property
    def log(self) -> pathlib.Path:
        return self.state / "server.log"

    def command(self) -> list:
        return [
            BINARY,
            "dev",
            *("--listen", f"127.0.0.1:{self.port}"),
            *("--s3-listen", self.s3_endpoint),
            *("--state-dir", self.state / "state"),
            *self.flags,
        ]

    def start(self) -> "Server":
        # The server's own Postgres runs as an unprivileged user, which has to reach its folder.
        self.state.chmod(0o755)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), env={**os.environ, **self.env}, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        try:
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, *exc: object) -> None:
        """Ends the server whatever happened, and removes its folder when all went well."""
        self.stop()
        if exc[0] is None:
            shutil.rmtree(self.state)

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with {self.process.returncode}:\n{self.tail()}")
            try:
                if httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"the server was not ready within {READY_WITHIN_SECONDS} s:\n{self.tail()}")

    def stop(self) -> int:
        """Asks the server to end and returns its exit code."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def kill(self) -> None:
        """Ends the server without warning."""
        process, self.process = self.process, None
        process.kill()
        process.wait()

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def faults(self) -> list[str]:
        """Lines of the log that tell of a fault of the server itself."""
        suspicious = re.compile(r'panicked|\bERROR\b|"level":"ERROR"|PANIC:|FATAL:')
        return [line for line in self.log.read_text(errors="replace").splitlines() if suspicious.search(line)]
