"""Classes of a user that say when windows fire: literal rows, and whatever happens to a job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.api.user_code import UserCode, UserCodeError
from headrace.core.plan.nodes.windows import Cumulate, Global, Slide, Trigger, Tumble, Window
from headrace.core.types.data_types import BIGINT, STRING, TIMESTAMP, Field, Schema
from headrace.core.types.elements import EVENT_TIME
from tests.core.operators.windows.test_user_functions import (
    AGGREGATES,
    APPLY,
    EVICT,
    pipeline,
    survive,
)
from tests.support.paths import WINDOW_CODE
from tests.support.reference import random_pipelines
from tests.support.runtime import expected_rows
from tests.support.runtime.window_operators import aggregate, driven, us

TEN = Tumble(us(10))
OWN = """
class Own:
    state = {"n": "bigint"}

    def on_row(self, row, state, window):
        BODY
"""
SUMS = "state['n'] = (state['n'] or 0) + row['x']; return state['n'] > 5"


def trigger(folder: Path, body: str = SUMS) -> Trigger:
    """A trigger that goes by x and keeps a number; by default it fires once x is more than 5."""
    Path(folder, "own.py").write_text(OWN.replace("BODY", body))
    of = Schema((Field("k", STRING), Field("x", BIGINT)))
    state = Schema((Field("n", BIGINT),))
    return Trigger(code=UserCode(folder, "own.py", "Own"), input_columns=of, state=state)


def test_a_window_fires_when_the_class_says_so(tmp_path: Path) -> None:
    step = driven(aggregate(Window(TEN, trigger=trigger(tmp_path))))
    assert step.rows((1, "a", 3), (2, "b", 6), (11, "a", 1)) == [("b", 0, 10, 1, 6)]
    assert step.rows((3, "a", 3)) == [("a", 0, 10, 2, 6)]
    assert step.rows((12, "a", 1)) == []
    assert sorted(step.time(10)) == [("a", 0, 10, 2, 6), ("b", 0, 10, 1, 6)]
    assert step.end() == [("a", 10, 20, 2, 2)]


def test_the_trigger_is_called_for_each_row_in_order(tmp_path: Path) -> None:
    step = driven(aggregate(Window(TEN, trigger=trigger(tmp_path))))
    rows = [(1, "a", 3), (2, "b", 6), (3, "a", 3), (4, "a", 1), (5, "b", 0)]
    assert step.rows(*rows) == [
        ("b", 0, 10, 1, 6),
        ("a", 0, 10, 2, 6),
        ("a", 0, 10, 3, 7),
        ("b", 0, 10, 2, 6),
    ]
    step = driven(aggregate(Window(TEN, trigger=trigger(tmp_path), keeps_rows=False)))
    assert step.rows(*rows, (6, "a", 5)) == [
        ("b", 0, 10, 1, 6),
        ("a", 0, 10, 2, 6),
        ("a", 0, 10, 2, 6),
    ]
    assert step.end() == [("b", 0, 10, 1, 0)]


def test_each_late_row_fires_without_asking(tmp_path: Path) -> None:
    window = Window(TEN, lateness_us=us(5), trigger=trigger(tmp_path), keeps_rows=False)
    step = driven(aggregate(window))
    step.rows((1, "a", 3))
    assert step.time(10) == [("a", 0, 10, 1, 3)]
    assert step.rows((2, "a", 1), (3, "a", 2)) == [("a", 0, 10, 1, 1), ("a", 0, 10, 1, 2)]


def test_a_time_outside_pythons_range_is_reported(tmp_path: Path) -> None:
    columns = Schema((Field("x", BIGINT), Field(EVENT_TIME, TIMESTAMP)))
    own = replace(trigger(tmp_path), input_columns=columns)
    step = driven(aggregate(Window(Global(), trigger=own)))
    with pytest.raises(UserCodeError, match="has a time outside the years 1 to 9999") as raised:
        step.rows((10**12, "a", 3))
    assert raised.value.hint.startswith("Python has no such time")


def test_a_fired_window_is_cleared_with_the_triggers_state(tmp_path: Path) -> None:
    step = driven(aggregate(Window(TEN, trigger=trigger(tmp_path), keeps_rows=False)))
    assert step.rows((1, "a", 7)) == [("a", 0, 10, 1, 7)]
    assert step.rows((2, "a", 5)) == []
    fired = step.rows((2, "a", 1), (3, None, 9))
    assert sorted(fired, key=str) == [("a", 0, 10, 2, 6), (None, 0, 10, 1, 9)]
    assert step.end() == []


def test_the_trigger_is_called_for_each_window_of_a_row(tmp_path: Path) -> None:
    step = driven(aggregate(Window(Slide(us(6), us(3)), trigger=trigger(tmp_path))))
    assert step.rows((1, "a", 4)) == []
    assert step.rows((4, "a", 3)) == [("a", 0, 6, 2, 7)]
    assert sorted(step.end()) == [("a", -3, 3, 1, 4), ("a", 0, 6, 2, 7), ("a", 3, 9, 1, 3)]
    step = driven(aggregate(Window(Cumulate(us(6), us(3)), trigger=trigger(tmp_path))))
    assert sorted(step.rows((1, "a", 6))) == [("a", 0, 3, 1, 6), ("a", 0, 6, 1, 6)]


def test_all_rows_may_be_one_window(tmp_path: Path) -> None:
    step = driven(aggregate(Window(Global(), trigger=trigger(tmp_path)), ()))
    assert step.rows((1, "a", 4)) == []
    assert step.rows((4, "b", 3)) == [(2, 7)]


def test_rows_that_come_late_fire_without_asking(tmp_path: Path) -> None:
    window = Window(TEN, lateness_us=us(5), trigger=trigger(tmp_path))
    step = driven(aggregate(window))
    step.rows((1, "a", 3))
    assert step.time(10) == [("a", 0, 10, 1, 3)]
    assert step.rows((2, "a", 1)) == [("a", 0, 10, 2, 4)]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return 1 / 0", "own.py:6: ZeroDivisionError: division by zero"),
        ("return None", "own.py:Own: on_row must return True or False, got NoneType"),
        ("state['m'] = 1; return True", "own.py:Own keeps n, m, not n"),
        ("state['n'] = 'x'; return True", 'own.py:Own keeps a "n" that is not a bigint: TypeError'),
    ],
)
def test_an_error_is_reported_with_key_and_window(body: str, said: str, tmp_path: Path) -> None:
    step = driven(aggregate(Window(TEN, trigger=trigger(tmp_path, body))))
    with pytest.raises(UserCodeError) as raised:
        step.rows((1, "a", 3))
    assert raised.value.message.startswith(said)
    assert "(key k='a', window 1970-01-01T00:00:00 to 1970-01-01T00:00:10)" in raised.value.message


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_whatever_happens_windows_end_with_all_rows(data: st.DataObject) -> None:
    shape = data.draw(random_pipelines.TIMES)
    late = "" if "global" in shape else data.draw(st.sampled_from(["", ", lateness: 4s"]))
    more = f"{late}{data.draw(EVICT)}, trigger: {{python: '{WINDOW_CODE}:EveryThree', of: v}}"
    apply = f"apply: {{python: '{WINDOW_CODE}:brief', returns: {APPLY['brief']}}}"
    step = data.draw(st.sampled_from([AGGREGATES[0], apply]))
    survive(data, f"window: {{{shape}{more}}}", step)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_whatever_happens_each_firing_is_emitted_once(data: st.DataObject) -> None:
    shape = data.draw(random_pipelines.TIMES)
    at_end = data.draw(st.sampled_from(["", ", at_end: false"]))
    name = data.draw(st.sampled_from(["EveryThree", "Reminded"]))
    own = f"trigger: {{python: '{WINDOW_CODE}:{name}', of: v{at_end}}}"
    accumulate = str(data.draw(st.booleans())).lower()
    window = f"window: {{{shape}, {own}, accumulate: {accumulate}{data.draw(EVICT)}}}"
    clauses = (data.draw(st.sampled_from(["", "key: k", "key: x"])), window, AGGREGATES[0])
    text, splits = pipeline(*filter(None, clauses)), [data.draw(random_pipelines.ROWS)]
    if name == "EveryThree":  # which rows come before a timer depends on when watermarks come
        text, (splits,) = expected_rows.perhaps_in_order(data, text, splits)
    expected_rows.survive(data, text, {"rows": splits}, every_firing=True)
