"""docs/openapi.json says what is answered: every path, and every field."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from headrace.cli.control import api
from headrace.cli.control.job_control import JobControl
from headrace.core.coordination.messages import CheckpointFailed
from tests.support.cli.controlled_jobs import Running, running
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
SAID: Any = json.loads((DOCS / "openapi.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("job")) as job:
        job.until_read(10)
        yield job


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


def test_the_paths_are_those_of_the_server() -> None:
    routes = {(route.path, route.method) for route in api.build_routes(cast(JobControl, None))}
    said = {(path, method.upper()) for path, some in SAID["paths"].items() for method in some}
    assert routes == said


@pytest.mark.parametrize(
    ("method", "path", "asked", "status"),
    [
        ("GET", "/v1/job", None, 200),
        ("GET", "/v1/statistics", None, 200),
        ("GET", "/v1/findings", None, 200),
        ("GET", "/v1/graph", None, 200),
        ("GET", "/v1/settings", None, 200),
        ("GET", "/v1/checkpoints", None, 200),
        ("POST", "/v1/savepoints", {}, 202),
        ("POST", "/v1/savepoints", {"to": "relative"}, 400),
        ("POST", "/v1/rescale", {"parts": {"totals": 3}}, 202),
        ("POST", "/v1/rescale", {}, 400),
        ("GET", "/v1/operations", None, 200),
        ("GET", "/v1/operations/{id}", None, 404),
    ],
)
def test_responses_match_the_openapi_document(
    job: Running, method: str, path: str, asked: dict[str, object] | None, status: int
) -> None:
    got, said = job.client.send_request(method, path.replace("{id}", "none"), asked)
    assert got == status
    assert list(wrong(said, answer_of(path, method, status))) == []
    if status == 202:
        assert job.ended(said)["state"] == "done"


def test_operations_match_the_openapi_document(job: Running) -> None:
    job.control.summary.record_event(CheckpointFailed(9, "no space left on device"))
    one = SAID["components"]["schemas"]["Operation"]
    operations = [job.asked("/v1/savepoints"), job.asked("/v1/rescale", parallelism=1)]
    for operation in [*operations, *map(job.ended, operations)]:
        assert list(wrong(operation, one)) == []
    assert list(wrong(job.client.fetch_job(), answer_of("/v1/job", "GET", 200))) == []
    there = job.ended(operations[0])["result"]["path"]
    failed = job.ended(job.asked("/v1/savepoints", to=there))
    assert failed["error"]["code"] == "refused"
    assert list(wrong(failed, one)) == []


def test_what_a_schema_does_not_say_is_noticed() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}
    assert len(list(wrong({"a": "x", "b": 1}, schema))) == 2
    assert len(list(wrong({}, schema))) == 1
    assert not list(wrong({"a": 1}, schema))


def test_codes_and_paths_are_on_the_pages() -> None:
    sources = [*(DOCS.parent / "cli" / "control").glob("*.py")]
    text = "\n".join(path.read_text("utf-8") for path in sources)
    codes = set(re.findall(r'RequestError\(\s*\d{3},\s*"(\w+)"', text))
    codes -= {"defect", "busy", "wrong_host"}  # the last one is for `--http` alone
    said = " ".join(each["description"] for each in SAID["components"]["responses"].values())
    assert codes >= {"malformed", "stopping", "too_late"}
    assert not [code for code in codes if f"`{code}`" not in said]
    page = (DOCS / "control.md").read_text("utf-8")
    assert not [path for path in SAID["paths"] if f"`{path}" not in page and f" {path}" not in page]
