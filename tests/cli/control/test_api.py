"""docs/openapi.json says what is answered: every path, and every field."""

import re
from collections.abc import Iterator
from typing import cast

import pytest

from headrace.cli.control import api
from headrace.cli.control.job_control import JobControl
from headrace.core.coordination.messages import CheckpointFailed
from tests.support.cli.controlled_jobs import Running, running
from tests.support.cli.openapi import DOCS, SAID, answer_of, list_operations, wrong


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("job")) as job:
        job.until_read(10)
        yield job


def test_the_paths_are_those_of_the_server() -> None:
    routes = {(route.path, route.method) for route in api.build_routes(cast(JobControl, None))}
    assert routes == list_operations("job")


@pytest.mark.parametrize(
    ("method", "path", "asked", "status"),
    [
        ("GET", "/v1/job", None, 200),
        ("GET", "/v1/statistics", None, 200),
        ("GET", "/v1/findings", None, 200),
        ("GET", "/v1/graph", None, 200),
        ("GET", "/v1/settings", None, 200),
        ("GET", "/v1/checkpoints", None, 200),
        ("GET", "/v1/rejected-rows", None, 200),
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
    folders = (DOCS.parent / "cli" / name for name in ("control", "server"))
    sources = [path for folder in folders for path in folder.glob("*.py")]
    text = "\n".join(path.read_text("utf-8") for path in sources)
    codes = set(re.findall(r'RequestError\(\s*\d{3},\s*"(\w+)"', text))
    codes -= {"defect", "failed", "busy", "wrong_host"}  # the last one is for `--http` alone
    said = " ".join(each["description"] for each in SAID["components"]["responses"].values())
    said += SAID["info"]["description"]
    assert codes >= {"malformed", "stopping", "too_late"}
    assert not [code for code in codes if f"`{code}`" not in said]
    page = (DOCS / "control.md").read_text("utf-8")
    paths = {path for path, _ in list_operations("job")}
    assert not [path for path in paths if f"`{path}" not in page and f" {path}" not in page]
