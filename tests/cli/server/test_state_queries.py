"""Queries over the state of a job: what is answered, and the bounds of what they take."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.cli.control.http_messages import RequestError
from headrace.cli.errors import Refusal
from headrace.cli.server import state_queries
from headrace.cli.server.short_process import ShortProcess
from headrace.cli.server.state_queries import answer_request, read_state
from tests.support.stopped_jobs import Stopped

NAMED = "  named: {from: rows, with: {rows: s}}\n"
TOP = "from: named, key: rows, top: {n: 3, by: v desc}, ttl: 1h"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The home of a job whose key has a column named `rows`."""
    return Stopped(
        tmp_path_factory.mktemp("state"), TOP, parallelism=2, on_disk=True, more=NAMED
    ).root


def answer(home: str, sql: str | None = None) -> Any:
    """Return an answer, as the process makes it."""
    return answer_request({"job": "test", "home": home, "sql": sql})


def test_a_key_named_rows_is_counted(home: str) -> None:
    (state,) = answer(home)["steps"]["step"]["states"].values()
    assert state["largest_keys"][0] == {"key": ["a"], "rows": 2}
    assert state["counted_rows"] is None


def test_the_rows_that_were_counted_are_named(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_queries, "MAX_COUNTED_ROWS", 1)
    (state,) = answer(home)["steps"]["step"]["states"].values()
    assert 1 <= state["counted_rows"] < state["rows"]


def test_a_value_that_a_query_makes_has_a_bound(home: str) -> None:
    for made in ("repeat('x', 100000)", "repeat(max(rows), 100000)", "max(repeat(rows, 100000))"):
        with pytest.raises(Refusal, match="more than max_value, 65,536"):
            answer(home, f"select {made} from step")


def test_an_answer_that_is_too_large_is_refused(home: str) -> None:
    columns = ", ".join(f"repeat('x', 65000) as c{number}" for number in range(140))
    with pytest.raises(RequestError, match="more than 8,388,608 bytes") as raised:
        asyncio.run(read_state("test", home, f"select {columns}"))
    assert (raised.value.status, raised.value.code) == (422, "too_large")


def test_a_process_without_memory_is_ended_before_jobs(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module runs as it is; the interpreter prints its score at the end."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(open('/proc/self/oom_score_adj').read(), file=sys.stderr))\n"
    )
    (tmp_path / "sitecustomize.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    process = ShortProcess(state_queries.__name__, 2**20)
    answer = asyncio.run(process.ask({"job": "test", "home": home, "sql": "select 1"}))
    assert (answer.status, answer.failure) == (0, "1000")


def test_a_query_that_needs_too_much_memory_says_so(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_queries, "MAX_MEMORY", 400 * 2**20)
    assert orjson.loads(asyncio.run(read_state("test", home, "select rows from step")))["rows"]
    columns = ", ".join(f"repeat(rows, {65000 - number}) as c{number}" for number in range(3000))
    with pytest.raises(RequestError, match="more memory than its process may have, 400 MiB") as got:
        asyncio.run(read_state("test", home, f"select {columns} from step"))
    assert (got.value.status, got.value.code) == (422, "too_large")


def test_no_more_than_three_queries_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repeating.py").write_text("import sys\nprint(sys.stdin.read(), end='')\n")
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    monkeypatch.setattr(state_queries, "PROCESS", ShortProcess("repeating", 2**20))

    async def ask_five() -> list[bytes | BaseException]:
        queries = (read_state("test", "home", str(number)) for number in range(5))
        return await asyncio.gather(*queries, return_exceptions=True)

    *answers, refused = asyncio.run(ask_five())
    texts = [orjson.loads(each)["sql"] for each in answers if isinstance(each, bytes)]
    assert texts == ["0", "1", "2", "3"]
    assert isinstance(refused, RequestError)
    assert (refused.status, refused.code) == (503, "busy")
