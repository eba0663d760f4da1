"""Answers of the API compared with docs/openapi.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.paths import ROOT

DOCS = ROOT / "docs"
SAID: Any = json.loads((DOCS / "openapi.json").read_text("utf-8"))


def resolved(schema: Any) -> Any:
    """Resolve a reference."""
    if "$ref" not in schema:
        return schema
    found = SAID
    for name in schema["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


def wrong(value: Any, schema: Any, where: str = "") -> Iterator[str]:
    """Yield the parts of a value that the schema contradicts or does not declare."""
    schema = resolved(schema)
    for one in schema.get("oneOf", ()):
        if value is not None and resolved(one).get("type") != "null":
            yield from wrong(value, one, where)
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and kind(value) not in kinds and not (kind(value) == "integer" and "number" in kinds):
        yield f"{where}: wanted {kinds}, got {value!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is not in {schema['enum']}"
    if isinstance(value, dict):
        yield from wrong_members(value, schema, where)
    for item in value if isinstance(value, list) and "items" in schema else ():
        yield from wrong(item, schema["items"], f"{where}[]")


def wrong_members(value: dict[str, Any], schema: Any, where: str) -> Iterator[str]:
    yield from (
        f"{where}.{name} is missing" for name in schema.get("required", ()) if name not in value
    )
    for name, inner in value.items():
        known = schema.get("properties", {}).get(name) or schema.get("additionalProperties")
        if known:
            yield from wrong(inner, known, f"{where}.{name}")
        elif "properties" in schema:
            yield f"{where}.{name} is not said"


def kind(value: object) -> str:
    """Return JSON's name of the type."""
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array"}
    return "null" if value is None else kinds.get(type(value), "object")


def answer_of(path: str, method: str, status: int) -> Any:
    """The schema of an answer."""
    answers = SAID["paths"][path][method.lower()]["responses"]
    found = resolved(answers[str(status)])
    return found["content"]["application/json"]["schema"]


def list_operations(tag: str) -> set[tuple[str, str]]:
    """The paths and methods of the job or of the server."""
    return {
        (path, method.upper())
        for path, some in SAID["paths"].items()
        for method, one in some.items()
        if tag in one["tags"]
    }
