"""The contracts, as judges: every answer of the server is held against openapi/catalog.yaml or openapi/conversion.yaml.

The judge is stricter than the contract's readers need to be: a field that the contract does not name is a fault, and so is
a missing X-Request-Id. It also keeps a record of which operations were answered with which status, so that a run can tell
which parts of the contract nobody asked for.
"""

from __future__ import annotations

import copy
import pathlib
import re
from collections import defaultdict
from urllib.parse import unquote

import jsonschema_rs
import yaml

OPENAPI = pathlib.Path(__file__).parent.parent / "openapi"
PREFIX = "/v1"


class ContractBreach(AssertionError):
    """An answer that the contract does not allow."""


def load(name: str = "catalog") -> dict:
    return yaml.safe_load((OPENAPI / f"{name}.yaml").read_text())


def as_json_schema(node, *, closed: bool):
    """Turns an OpenAPI 3.0 schema into JSON Schema: `nullable` becomes a type. `closed` forbids fields without a name."""
    if isinstance(node, list):
        return [as_json_schema(item, closed=closed) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: as_json_schema(value, closed=closed) for key, value in node.items()}
    # A property may itself be called `nullable`; only the keyword is a plain true.
    if node.get("nullable") is True:
        return {"anyOf": [{"type": "null"}, {key: value for key, value in node.items() if key != "nullable"}]}
    if closed and isinstance(node.get("properties"), dict) and node.get("type") == "object":
        node.setdefault("additionalProperties", False)
    if node.get("format") == "int64":
        node.setdefault("minimum", -(2**63))
        node.setdefault("maximum", 2**63 - 1)
    return node


class Operation:
    def __init__(self, path: str, method: str, raw: dict, contract: "Contract"):
        self.id = raw["operationId"]
        self.path, self.method, self.raw = path, method.upper(), raw
        pattern = re.sub(r"\{[^}]+\}", "[^/]+", path)
        self.pattern = re.compile(f"^{contract.prefix}{pattern}$")
        self.parameters = [contract.resolve(p) for p in raw.get("parameters", [])]
        self.responses = {status: contract.resolve(r) for status, r in raw["responses"].items()}

    @property
    def body_schema(self) -> dict | None:
        body = self.raw.get("requestBody")
        return body and body["content"]["application/json"]["schema"]

    def __repr__(self) -> str:
        return self.id


class Contract:
    def __init__(self, name: str = "catalog", error: str = "ApiError") -> None:
        self.document = load(name)
        self.prefix = self.document["servers"][0]["url"].rstrip("/")
        self.error = error
        self.components = {
            closed: as_json_schema(copy.deepcopy(self.document["components"]["schemas"]), closed=closed)
            for closed in (False, True)
        }
        self.operations = [
            Operation(path, method, raw, self)
            for path, methods in self.document["paths"].items()
            for method, raw in methods.items()
            if method in ("get", "post", "put", "patch", "delete")
        ]
        self.by_id = {operation.id: operation for operation in self.operations}
        self.seen: dict[str, set[int]] = defaultdict(set)
        self._validators: dict[tuple[str, str], jsonschema_rs.Validator | None] = {}

    def resolve(self, node: dict) -> dict:
        while "$ref" in node:
            target = self.document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            node = target
        return node

    def find(self, method: str, raw_path: str) -> Operation | None:
        """The operation of a request. Literal paths win over templates, as in the router."""
        matches = [o for o in self.operations if o.method == method and o.pattern.match(raw_path)]
        return min(matches, key=lambda o: o.path.count("{"), default=None)

    def validator(self, schema: dict) -> jsonschema_rs.Validator:
        root = {
            "allOf": [as_json_schema(copy.deepcopy(schema), closed=True)],
            "components": {"schemas": self.components[True]},
        }
        return jsonschema_rs.Draft202012Validator(root, validate_formats=True)

    def judge(self, method: str, raw_path: str, status: int, headers, body: bytes, json) -> None:
        """Raises `ContractBreach` unless the contract allows this answer.

        `raw_path` is the path as sent, still percent-encoded and without the query. `json` parses the body.
        """
        where = f"{method} {unquote(raw_path)} answered {status}"

        def breach(what: str):
            shown = body[:600].decode("utf-8", "replace")
            raise ContractBreach(f"{where}: {what}\n{shown}")

        if not headers.get("x-request-id"):
            breach("no X-Request-Id")
        if 300 <= status < 400 and status != 304:
            breach("the contract has no redirects")
        if not raw_path.startswith(PREFIX + "/"):
            return
        operation = self.find(method, raw_path)
        if operation is None:
            if status not in (404, 405):
                breach("no such operation in the contract")
            self._judge_json(self.error, {"$ref": f"#/components/schemas/{self.error}"}, headers, json, breach)
            return
        self.seen[operation.id].add(status)
        response = operation.responses.get(str(status)) or operation.responses.get("default")
        if response is None:
            breach(f"{operation.id} does not declare this status")
        content = response.get("content")
        if content is None:
            if body:
                breach("the contract has no body here")
            return
        self._judge_json(f"{operation.id} {status}", content["application/json"]["schema"], headers, json, breach)
        if status == 503 and not headers.get("retry-after"):
            breach("no Retry-After")

    def _judge_json(self, key: str, schema: dict, headers, json, breach) -> None:
        if headers.get("content-type", "").split(";")[0] != "application/json":
            breach(f"content type {headers.get('content-type')!r}")
        try:
            value = json()
        except ValueError as error:
            breach(f"not JSON: {error}")
        if key not in self._validators:
            self._validators[key] = self.validator(schema)
        errors = [
            f"{'/'.join(str(p) for p in error.instance_path) or '(root)'}: {error.message[:300]}"
            for error in self._validators[key].iter_errors(value)
        ]
        if errors:
            breach("; ".join(errors[:5]))


CONTRACT = Contract()
CONVERSION = Contract("conversion", "ErrorModel")


def judged(response) -> None:
    """An httpx response hook: reads the answer and holds it against its contract."""
    response.read()
    raw_path = response.request.url.raw_path.split(b"?")[0].decode("ascii")
    contract = CONVERSION if f"{raw_path}/".startswith(f"{PREFIX}/conversion/") else CONTRACT
    contract.judge(
        response.request.method, raw_path, response.status_code, response.headers, response.content, response.json
    )
