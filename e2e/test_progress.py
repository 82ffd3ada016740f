"""Maintenance commands tell a person how far they are, and nobody else: what they print is for programs, too."""

import json
import os
import pty
import re
import subprocess
import threading

import pytest

from server import BINARY

COMMANDS = ["hydrate", "compact", "expire", "clean", "verify"]


def run_on_a_terminal(command: list[str]) -> tuple[int, str, str]:
    """Exit code, standard output from a pipe, standard error from a terminal."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def listen() -> None:
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how Linux says that nobody holds the other end any more
                return
            if not piece:
                return
            shown.extend(piece)

    environment = {**os.environ, "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    listener = threading.Thread(target=listen)
    listener.start()
    printed, _ = process.communicate(timeout=60)
    listener.join()
    os.close(ours)
    return process.returncode, printed.decode(), shown.decode()


@pytest.mark.parametrize("task", COMMANDS)
def test_progress_is_shown_on_a_terminal(server, bare, task):
    code, printed, shown = run_on_a_terminal([BINARY, task, bare.name, "--server", server.url])
    assert code == 0, shown
    assert f"{task.capitalize()} {bare.name}" in shown
    # the line is taken away again, and nothing of it is in the result
    after_the_last_line_was_cleared = shown.rsplit("\x1b[2K", 1)[1]
    assert re.fullmatch(r"(\x1b\[\d*[A-Z]|\s)*", after_the_last_line_was_cleared), repr(shown)
    assert "\x1b" not in printed and printed.strip()


@pytest.mark.parametrize("task", COMMANDS)
def test_no_progress_where_nobody_looks(server, bare, task):
    command = [BINARY, task, bare.name, "--server", server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.strip()


@pytest.mark.parametrize("task", COMMANDS)
def test_json_is_nothing_but_json(server, bare, task):
    command = [BINARY, task, bare.name, "--server", server.url, "--json"]
    code, printed, shown = run_on_a_terminal(command)
    assert (code, shown) == (0, ""), shown
    assert isinstance(json.loads(printed), dict)
