"""Makes wrong requests out of right ones, by walking the contract.

Everything here violates the shape of a request, so the answer is 400 `bad_request` wherever it happens. Rules about
values (422) are tables in the test files.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

from contract import CONTRACT

UNKNOWN = "no_such_field"
OVER_INT64 = 2**63
WRONG_FOR = {
    "integer": ["1", 1.5, True, [], {}, OVER_INT64, -OVER_INT64 - 1],
    "string": [1, 1.5, True, [], {}, "a\0b"],
    "boolean": ["true", 1, [], {}],
    "array": [{}, "x", 1, True],
    "object": [[], "x", 1, True],
}
MALFORMED = {"uuid": ["not-a-uuid", ""], "byte": ["*", "A"]}
NOT_OBJECTS = [None, [], "x", 1, True]


def resolved(schema: dict) -> dict:
    """The schema behind `$ref` and a single `allOf`, with the outer `nullable` kept."""
    nullable = schema.get("nullable", False)
    while True:
        if "$ref" in schema:
            schema = CONTRACT.resolve(schema)
        elif len(schema.get("allOf", [])) == 1:
            schema = schema["allOf"][0]
        else:
            break
    return {**schema, "nullable": nullable or schema.get("nullable", False)}


def shown(value) -> str:
    text = repr(value)
    return text if len(text) < 24 else text[:21] + "..."


def replaced(body, where: tuple, value):
    """A copy of `body` with `value` at `where`."""
    if not where:
        return value
    made = copy.deepcopy(body)
    target = made
    for step in where[:-1]:
        target = target[step]
    target[where[-1]] = value
    return made


def removed(body, where: tuple):
    made = copy.deepcopy(body)
    target = made
    for step in where[:-1]:
        target = target[step]
    del target[where[-1]]
    return made


def at(where: tuple) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in where).lstrip(".") or "body"


def walk(schema: dict, value, where: tuple = ()) -> Iterator[tuple[str, tuple, dict, object]]:
    """Every place of a right body that the schema describes: (kind, where, schema, value)."""
    schema = resolved(schema)
    yield schema["type"], where, schema, value
    if schema["type"] == "object":
        for name, inner in schema.get("properties", {}).items():
            if name in value:
                yield from walk(inner, value[name], (*where, name))
    elif schema["type"] == "array" and value:
        yield from walk(schema["items"], value[0], (*where, 0))


def bodies(schema: dict, right: dict) -> Iterator[tuple[str, object]]:
    """Wrong versions of `right`, each with a label."""
    for value in NOT_OBJECTS:
        yield f"body = {shown(value)}", value
    for kind, where, here, value in walk(schema, right):
        if where:
            for wrong in WRONG_FOR[kind]:
                yield f"{at(where)} = {shown(wrong)}", replaced(right, where, wrong)
            for wrong in MALFORMED.get(here.get("format"), []):
                yield f"{at(where)} = {shown(wrong)}", replaced(right, where, wrong)
        if kind == "object" and here.get("additionalProperties") is False:
            # Some decoders take the values of an object without their names.
            yield f"{at(where)} as a list", replaced(right, where, [value[name] for name in here["properties"]])
            yield f"{at(where)} with {UNKNOWN}", replaced(right, (*where, UNKNOWN), 1)
            for name in here.get("required", []):
                yield f"{at((*where, name))} missing", removed(right, (*where, name))
                inner = resolved(here["properties"][name])
                if not inner["nullable"]:
                    yield f"{at((*where, name))} = null", replaced(right, (*where, name), None)
        if kind == "array" and not resolved(here["items"])["nullable"]:
            yield f"{at(where)} = [null]", replaced(right, where, [None])


def untouched(schema: dict, right: dict) -> list[str]:
    """Properties that `right` leaves out, so that nothing wrong is ever put there."""
    missing = []

    def look(schema, value, where):
        schema = resolved(schema)
        if schema["type"] == "object":
            for name, inner in schema.get("properties", {}).items():
                if value is None or name not in value:
                    missing.append(at((*where, name)))
                else:
                    look(inner, value[name], (*where, name))
        elif schema["type"] == "array" and value:
            look(schema["items"], value[0], (*where, 0))

    look(schema, right, ())
    return missing
