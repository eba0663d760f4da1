"""Aggregates that are classes of a user: in windows of every shape, and when they are not right."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.memory_pipelines import cut, rows, threaded

AGGREGATES = {
    "total": f"{{python: '{WINDOW_CODE}:Total', of: v, returns: string}}",
    "median": f"{{python: '{WINDOW_CODE}:Median', of: [v + 1], returns: double}}",
    "words": f"{{python: '{WINDOW_CODE}:Words', of: [s, v], returns: string}}",
}
SHAPES = st.one_of(
    st.just(""),
    st.builds(
        "window: {{{}{}{}}}".format,
        random_pipelines.TIMES,
        random_pipelines.TRIGGERS,
        random_pipelines.EVICT,
    ),
)
BEGIN = random_pipelines.BEGIN


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_whatever_happens_they_are_of_all_rows(data: st.DataObject) -> None:
    shape = data.draw(SHAPES.filter(lambda text: not ("global" in text and "lateness" in text)))
    splits = data.draw(random_pipelines.SPLITS)
    key = data.draw(random_pipelines.KEYS)
    text = pipeline(shape, key, more="    on_error: skip\n" if "raise_error" in key else "")
    expected_rows.survive(data, text, {"rows": splits})


def test_rows_of_count_windows_are_merged_from_panes(tmp_path: Path) -> None:
    some = [{"k": 1, "s": "a", "v": v, "x": 0.0, "at": BEGIN} for v in range(6)]
    text = pipeline("window: {count: 4, every: 2}", "key: k", "median", "total")
    memory = InMemoryData({"in": {"0": cut(random_pipelines.frame(some), 1)}})
    assert threaded(tmp_path, text, memory).failure is None
    wanted = [(1, 1.0, "1 of 2"), (1, 2.0, "6 of 4"), (1, 4.0, "14 of 4")]
    assert sorted(row[:3] for row in rows(memory, "out")) == wanted


def pipeline(shape: str, key: str, *names: str, more: str = "") -> str:
    """A pipeline of these aggregates, or of all and the number of rows."""
    columns = [f"{name}: {AGGREGATES[name]}" for name in names or AGGREGATES]
    columns += [] if names else ["n: count(*)"]
    clauses = [clause for clause in (key, shape, f"aggregate: {{{', '.join(columns)}}}") if clause]
    return (
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {random_pipelines.SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {random_pipelines.SPREAD_S}s}}\n"
        "steps:\n  step:\n    from: rows\n"
        + "".join(f"    {clause}\n" for clause in clauses)
        + more
        + "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


CLASS = """
from headrace import Aggregate

class Own(Aggregate):
    state = {STATE}
    def partial(self, v):
        PARTIAL
    def merge(self, partials):
        MERGE
    def finish(self, partial):
        FINISH
"""


def failure(folder: Path, shape: str, **bodies: str) -> str:
    """Return the error of a class with these methods, over two rows of a key."""
    code = CLASS
    known = {"STATE": '"n": "bigint"', "PARTIAL": 'return {"n": 1}', "MERGE": "return partials[0]"}
    for name, body in {**known, "FINISH": 'return partial["n"]', **bodies}.items():
        code = code.replace(name, body)
    Path(folder, "own.py").write_text(code)
    AGGREGATES["own"] = "{python: own.py:Own, of: v, returns: bigint}"
    text = pipeline(shape, "key: s", "own")
    del AGGREGATES["own"]
    times = [BEGIN + timedelta(seconds=s) for s in (10, 11)]
    some = [{"k": 1, "s": "a", "v": 1, "x": 0.0, "at": at} for at in times]
    outcome = threaded(
        folder, text, InMemoryData({"in": {"0": cut(random_pipelines.frame(some), 1)}})
    )
    assert outcome.failure is not None
    return f"{outcome.failure.step}: {outcome.failure.message} [{outcome.failure.hint}]"


IN_WINDOW = "(key s='a', window 1970-01-01T00:00:00 to 1970-01-01T00:00:05)"


class TestMistakesOfUsers:
    @pytest.mark.parametrize(
        ("bodies", "said"),
        [
            ({"PARTIAL": "raise ValueError('no')"}, "own.py:7: ValueError: no (in partial)"),
            ({"FINISH": "return 1 / 0"}, "own.py:11: ZeroDivisionError: division by zero (in"),
            ({"PARTIAL": "return 1"}, "own.py:Own: partial must return a dict of n, got int"),
            ({"PARTIAL": "return {}"}, "partial must return a dict of n, got an empty one"),
            ({"PARTIAL": "return {'n': 'x'}"}, 'partial returned a "n" that is not a bigint: '),
            ({"FINISH": "return 'x'"}, "finish returned a value that is not a bigint: TypeError"),
            (
                {"FINISH": "from decimal import Decimal; return Decimal('NaN')"},
                "finish returned a value that is not a bigint: ",
            ),
            (
                {"STATE": "", "PARTIAL": "return {1, 2}"},
                "partial returned a value that is not JSON: TypeError: Object of type set is not",
            ),
            (
                {"STATE": '"n": "bigint not null"', "PARTIAL": "return {'n': None}"},
                'partial returned a "n" of None, but it is declared not null',
            ),
        ],
    )
    def test_is_reported_with_the_key_and_the_window(
        self, bodies: dict[str, str], said: str, tmp_path: Path
    ) -> None:
        told = failure(tmp_path, "window: {tumble: 5s}", **bodies)
        assert told.startswith("step: ")
        assert said in told
        assert IN_WINDOW in told

    @pytest.mark.parametrize(
        ("shape", "where"),
        [
            ("", "(key s='a')"),
            ("window: {count: 2, every: 1}", "(key s='a')"),
            ("window: {session: 5s}", "(key s='a', rows of a session from 1970-01-01T00:00:00"),
            ("window: {slide: 4s, every: 2s}", "(key s='a', rows of windows around 1970-01-01T"),
        ],
    )
    def test_is_reported_where_the_window_is_not_known_yet(
        self, shape: str, where: str, tmp_path: Path
    ) -> None:
        assert where in failure(tmp_path, shape, PARTIAL="raise ValueError('no')")

    def test_state_that_is_not_written_in_the_class_itself_is_not_seen(
        self, tmp_path: Path
    ) -> None:
        bodies = {"STATE": '"n": "bigint"}\n    state = {**state, "m": "bigint"'}
        with pytest.raises(AssertionError, match="is computed, but must be a literal"):
            failure(tmp_path, "window: {tumble: 5s}", **bodies)
