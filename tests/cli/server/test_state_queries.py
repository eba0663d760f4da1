"""Queries over the state of a job: what is answered."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.server import state_queries
from headrace.cli.server.state_queries import answer_request
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
