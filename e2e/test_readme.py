"""The README's first session works when pasted."""

import json
import pathlib
import re
import subprocess
import sys

from conftest import S3_KEY, S3_SECRET
from server import ROOT

README = (ROOT / "README.md").read_text()


def session() -> str:
    return re.findall(r"```python\n(.*?)```", README, re.S)[0]


def test_the_first_session(server, tmp_path: pathlib.Path):
    text = session()
    assert S3_KEY in text and S3_SECRET in text
    text = text.replace("http://127.0.0.1:8080", server.url).replace("127.0.0.1:9000", server.s3_endpoint)
    script = tmp_path / "session.py"
    script.write_text(text)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "4 rows now, 2 at snapshot 4" in run.stdout
    assert "M10" in run.stdout
    history = [line.split() for line in run.stdout.splitlines()[-6:]]
    assert [(line[0], line[-1]) for line in history] == [
        ("1", "namespace_created"),
        ("2", "table_created"),
        ("3", "table_altered"),
        ("4", "table_inserted_into"),
        ("5", "table_inserted_into"),
        ("6", "table_altered"),
    ]


def test_the_conversion(server, tmp_path: pathlib.Path):
    _, text = re.findall(r"```python\n(.*?)```", README, re.S)
    made = subprocess.run(
        [sys.executable, "-c", text.replace("127.0.0.1:9000", server.s3_endpoint)], capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 0, made.stderr
    curl = re.search(r"    (curl -s localhost:8080/v1/conversion/table .*?\}')", README, re.S).group(1)
    for outcome in ["committed", "no-change"]:
        run = subprocess.run(
            curl.replace("localhost:8080", f"127.0.0.1:{server.port}"), shell=True, capture_output=True, text=True, timeout=60
        )
        (target,) = json.loads(run.stdout)["conversions"]
        assert target["outcome"] == outcome
        assert target["target-metadata-path"] == "s3://lake/orders/metadata/v1.metadata.json"


def test_the_commands_exist():
    usage = subprocess.run([ROOT / "x"], capture_output=True, text=True, check=True).stdout
    for command in re.findall(r"\./x (\w+)", README):
        assert f"./x {command}" in usage


def test_links_lead_somewhere():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
