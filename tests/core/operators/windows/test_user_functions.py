"""Functions of a user over the rows of windows: `apply`, and evictors."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.memory_pipelines import cut, rows, threaded

SMALL = f", evict: {{python: '{WINDOW_CODE}:small', of: v}}"
ODD = f", evict: {{python: '{WINDOW_CODE}:Odd'}}"
EVICT = st.sampled_from(["", ", evict: {last: 2}", SMALL, ODD])
APPLY = {
    "spread": "{v: bigint, s: string, at: bigint}",
    "brief": "{n: bigint not null, text: string}",
}
AGGREGATES = ["aggregate: {n: count(*), all: collect_list(v), s: first(s)}", "top: {n: 2, by: v}"]


def pipeline(*clauses: str) -> str:
    """A pipeline of one step with these clauses."""
    return (
        f"sources:\n  rows:\n    memory: {{data: in}}\n    schema: {random_pipelines.SCHEMA}\n"
        f"    event_time: at\n    watermark: {{delay: {random_pipelines.SPREAD_S}s}}\n"
        "steps:\n  step:\n    from: rows\n"
        + "".join(f"    {clause}\n" for clause in clauses)
        + "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_whatever_happens_they_see_all_rows_in_their_order(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*APPLY]))
    shape = data.draw(random_pipelines.TIMES)
    triggers = [""] if name == "spread" or "global" in shape else ["", ", lateness: 4s"]
    triggers += [", trigger: {count: 2}, accumulate: false"]
    if name == "brief":
        triggers += [", trigger: {count: 2}", ", trigger: {every: 3s}"]
    window = f"window: {{{shape}{data.draw(st.sampled_from(triggers))}{data.draw(EVICT)}}}"
    step = f"apply: {{python: '{WINDOW_CODE}:{name}', returns: {APPLY[name]}}}"
    survive(data, window, step)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_whatever_happens_evictors_leave_the_same_rows(data: st.DataObject) -> None:
    step = data.draw(st.sampled_from(AGGREGATES))
    more = data.draw(st.sampled_from(["", ", trigger: {count: 2}, accumulate: false"]))
    shape = data.draw(random_pipelines.TIMES)
    survive(data, f"window: {{{shape}{more}{data.draw(EVICT)}}}", step)


def survive(data: st.DataObject, *clauses: str) -> None:
    """Live through whatever is drawn."""
    splits = data.draw(random_pipelines.SPLITS)
    if "accumulate" in clauses[0]:  # the order of one split decides which rows are together
        splits = splits[:1]
    keys = data.draw(st.sampled_from(["", "key: k", "key: {d: v % 2, w: k}"]))
    expected_rows.survive(data, pipeline(*filter(None, (keys, *clauses))), {"rows": splits})


OWN = """
import polars as pl

def own(rows, window):
    {}
"""
IN_WINDOW = "(key s='a', window 1970-01-01T00:00:00 to 1970-01-01T00:00:05)"


def outcome(folder: Path, body: str, *clauses: str) -> str | list[tuple[object, ...]]:
    """Return the output of a function with this body over three rows, or its error."""
    Path(folder, "own.py").write_text(OWN.format(body))
    times = [random_pipelines.BEGIN + timedelta(seconds=s) for s in (10, 11, 12)]
    some = [{"k": 1, "s": "a", "v": n, "x": 0.0, "at": at} for n, at in enumerate(times)]
    memory = InMemoryData({"in": {"0": cut(random_pipelines.frame(some), 3)}})
    failure = threaded(folder, pipeline("key: s", *clauses), memory).failure
    if failure is None:
        return sorted(row[:-1] for row in rows(memory, "out"))
    return f"{failure.step}: {failure.message} [{failure.hint}]"


@pytest.mark.parametrize(
    ("shape", "bounds"),
    [
        ("tumble: 5s", (0, 5)),
        ("slide: 10s, every: 10s, offset: 5s", (-5, 5)),
        ("session: 3s", (0, 5)),
        ("count: 3", None),
        ("global: true", None),
    ],
)
def test_a_function_may_ask_for_key_and_window(
    shape: str, bounds: tuple[int, int] | None, tmp_path: Path
) -> None:
    body = "return {'seen': f'{window.key} {window.start} {window.end} {rows.columns}'}"
    apply = "apply: {python: own.py:own, returns: {seen: string}, of: [v]}"
    found = outcome(tmp_path, body, f"window: {{{shape}}}", apply)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    start, end = (epoch + timedelta(seconds=s) for s in bounds) if bounds else (None, None)
    assert [row[-1] for row in found] == [f"{{'s': 'a'}} {start} {end} ['v']"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "own.py:5: ZeroDivisionError: division by zero"),
        ("return 1", "own.py:own must return a DataFrame, dicts or None, got int"),
        ("return {'m': 1}", "own.py:own must return the columns n, got m"),
        ("return {'n': 'x'}", 'own.py:own returned a "n" that is not bigint: '),
        (
            "from decimal import Decimal\n    return {'n': Decimal('NaN')}",
            'returned a "n" that is no',
        ),
        ("return rows.select(n='s')", 'column "n" is declared bigint (Int64), but has type String'),
        ("return pl.DataFrame({'n': [None]})", 'column "n" is declared not null, but has nulls'),
    ],
)
def test_an_error_in_apply_is_reported_with_key_and_window(
    body: str, said: str, tmp_path: Path
) -> None:
    apply = "apply: {python: own.py:own, returns: {n: bigint not null}}"
    told = outcome(tmp_path, body, "window: {tumble: 5s}", apply)
    assert isinstance(told, str)
    assert told.startswith("step: ")
    assert said in told
    assert IN_WINDOW in told


def test_a_window_that_fires_again_has_one_row(tmp_path: Path) -> None:
    apply = "apply: {python: own.py:own, returns: {n: bigint}}"
    body = "return [{'n': 1}, {'n': 2}]"
    told = outcome(tmp_path, body, "window: {tumble: 5s, lateness: 1s}", apply)
    assert isinstance(told, str)
    assert f"returned 2 rows for a window that may fire again {IN_WINDOW}" in told
    assert "[each firing replaces the row: return one row, or set accumulate: false]" in told


@pytest.mark.parametrize(
    ("body", "came"),
    [
        ("return rows['v']", "Series"),
        ("return rows.select('v')", "DataFrame"),
        ("return None", "NoneType"),
        ("return [True]", "list"),
    ],
)
def test_an_evictor_returns_some_of_the_rows(body: str, came: str, tmp_path: Path) -> None:
    window = "window: {tumble: 5s, evict: {python: own.py:own}}"
    told = outcome(tmp_path, body, window, "aggregate: {n: count(*)}")
    assert isinstance(told, str)
    assert f"own.py:own must return some of the rows, got {came} {IN_WINDOW}" in told


def test_a_window_without_rows_left_is_emitted(tmp_path: Path) -> None:
    window = "window: {tumble: 5s, evict: {python: own.py:own, of: [x]}}"
    found = outcome(tmp_path, "return rows.head(0)", window, "aggregate: {n: count(*), m: max(v)}")
    assert [row[-2:] for row in found] == [(0, None)]
