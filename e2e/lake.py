"""A catalog seen through plain HTTP, with short words for what the tests do most."""

from __future__ import annotations

import contextlib
import itertools
from urllib.parse import quote

import httpx

from contract import judged

NO_SUCH_UUID = "00000000-0000-4000-8000-000000000000"
TYPES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "decimal",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "string",
    "uuid",
    "binary",
)
COLUMNS = [
    {"name": "id", "type": "long", "nullable": False},
    {"name": "name", "type": "string"},
    {"name": "day", "type": "date"},
    {"name": "amount", "type": "decimal", "type_params": {"precision": 10, "scale": 2}},
]


def client(url: str, **kwargs) -> httpx.Client:
    """A client whose every answer is held against the contract."""
    return httpx.Client(base_url=f"{url}/v1", event_hooks={"response": [judged]}, timeout=60, **kwargs)


def segment(text: object) -> str:
    return quote(str(text), safe="")


def path(*segments: object) -> str:
    return "/" + "/".join(segment(s) for s in segments)


def column(name: str, type_: str, **extra) -> dict:
    if type_ == "decimal":
        extra.setdefault("type_params", {"precision": 10, "scale": 2})
    return {"name": name, "type": type_, **extra}


def refused(response: httpx.Response, status: int, error: str, *fragments: str) -> dict:
    """Asserts that a request was refused with this status and code, and that `detail` mentions each fragment."""
    body = response.json() if response.content else {}
    told = f"{response.request.method} {response.request.url} -> {response.status_code} {response.text[:500]}"
    assert (response.status_code, body.get("error") if isinstance(body, dict) else body) == (status, error), told
    assert body.get("detail"), f"no detail: {told}"
    for fragment in fragments:
        assert fragment.lower() in body["detail"].lower(), f"{fragment!r} is not in the detail: {told}"
    return body


def ok(response: httpx.Response, status: int | None = None):
    """Asserts success and returns the body."""
    told = f"{response.request.method} {response.request.url} -> {response.status_code} {response.text[:500]}"
    if status is None:
        assert response.is_success, told
    else:
        assert response.status_code == status, told
    return response.json() if response.content else None


class Lake:
    """One catalog."""

    def __init__(self, api: httpx.Client, name: str, data_path: str | None = None):
        self.api, self.name = api, name
        self.data_path = data_path or f"s3://lake/{name}"
        self._files = itertools.count(1)

    def create(self) -> "Lake":
        ok(self.api.post("/catalogs", json={"name": self.name, "data_path": self.data_path}), 201)
        return self

    # Requests below this catalog. The last positional argument may be a body.

    def url(self, *segments: object) -> str:
        return path("catalogs", self.name, *segments)

    def get(self, *segments: object, **params) -> httpx.Response:
        return self.api.get(self.url(*segments), params=params or None)

    def post(self, *segments: object, json=None, **kwargs) -> httpx.Response:
        return self.api.post(self.url(*segments), json=json, **kwargs)

    def delete(self, *segments: object, **kwargs) -> httpx.Response:
        return self.api.delete(self.url(*segments), **kwargs)

    def table_url(self, table: str = "t", *segments: object, namespace: str = "ns") -> str:
        return self.url("namespaces", namespace, "tables", table, *segments)

    def get_table(self, table: str = "t", *segments: object, namespace: str = "ns", **params) -> httpx.Response:
        return self.api.get(self.table_url(table, *segments, namespace=namespace), params=params or None)

    # State.

    def head(self) -> int:
        return ok(self.get())["head_snapshot_id"]

    def state(self) -> dict:
        """What a refused request must not change."""
        return ok(self.get())

    def verify(self, **params) -> dict:
        """Asserts that every invariant of the catalog holds."""
        report = ok(self.api.post(self.url("maintenance", "verify"), params=params or None))
        assert report["status"] == "pass", [check for check in report["checks"] if check["status"] != "pass"]
        return report

    @contextlib.contextmanager
    def unchanged(self):
        before = self.state()
        yield
        assert self.state() == before, "a refused request moved the catalog"

    # Making things.

    def namespace(self, name: str = "ns") -> dict:
        return ok(self.post("namespaces", json={"name": name}), 201)

    def table(self, name: str = "t", columns: list[dict] | None = None, namespace: str = "ns") -> dict:
        body = {"name": name, "columns": COLUMNS if columns is None else columns}
        return ok(self.post("namespaces", namespace, "tables", json=body), 201)

    def alter(self, *ops: dict, table: str = "t", namespace: str = "ns", **kwargs) -> httpx.Response:
        return self.api.post(self.table_url(table, "alter", namespace=namespace), json={"ops": list(ops)}, **kwargs)

    def file(self, records: int = 1, **fields) -> dict:
        """The registration of a file that nobody wrote: the server never opens files at commit."""
        number = next(self._files)
        made = {
            "path": f"{self.data_path}/f/{number:06}.parquet",
            "record_count": records,
            "file_size_bytes": 1000 + number,
            "column_stats": [],
        }
        made.update(fields)
        return {key: value for key, value in made.items() if value is not ...}

    def vector(self, data_file_id: int, count: int = 1, **fields) -> dict:
        number = next(self._files)
        return {
            "data_file_id": data_file_id,
            "path": f"{self.data_path}/d/{number:06}.puffin",
            "delete_count": count,
            "file_size_bytes": 100 + number,
            **fields,
        }

    def appends(self, *files: dict, table: str = "t", namespace: str = "ns", **fields) -> dict:
        return {"namespace": namespace, "table": table, "files": list(files), **fields}

    deletes = appends

    def commit(self, **body) -> httpx.Response:
        headers = body.pop("headers", None)
        return self.api.post(self.url("commit"), json=body, headers=headers)

    def append(self, *files: dict, table: str = "t", namespace: str = "ns", **body) -> int:
        """Commits files (one of one record by default) and returns the snapshot."""
        entry = self.appends(*(files or (self.file(),)), table=table, namespace=namespace)
        return ok(self.commit(appends=[entry], **body), 200)["snapshot_id"]

    def delete_rows(self, *vectors: dict, read_snapshot: int | None = None, table: str = "t") -> int:
        read_snapshot = self.head() if read_snapshot is None else read_snapshot
        body = {"read_snapshot": read_snapshot, "deletes": [self.deletes(*vectors, table=table)]}
        return ok(self.commit(**body), 200)["snapshot_id"]

    # Reading.

    def files(self, table: str = "t", **params) -> list[dict]:
        return ok(self.get_table(table, "files", **params))

    def scan(self, table: str = "t", **params) -> list[dict]:
        return ok(self.get_table(table, "scan", **params))
