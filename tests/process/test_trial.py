"""Classes of users over literal rows, watermarks and times."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import polars as pl
import pytest

from headrace.core.operators.process.processing import Processing
from headrace.core.process import AllOut, AllState, Out, Process, Row, list_of, map_of, timer, value
from headrace.core.testing import Trial
from headrace.core.user_code import UserCodeError
from tests.process.classes import ManySessions, Matched, Sessions, Totals, Waking

ROWS = {"k": "string", "v": "bigint", "at": "timestamp"}
RETURNS = {"k": "string", "n": "bigint", "total": "bigint"}
START = datetime(2026, 1, 31, 8, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Payment(Row):
    k: str
    v: int


class Fraud(Process):
    last_small = value("boolean", ttl="1m")
    forget = timer()

    def on_row(self, row: Payment, state: Fraud, out: Out) -> None:
        if state.last_small and row.v > 500:
            out(k=row.k, why="a large payment behind a small one")
            out.audit(k=row.k)
        state.last_small = row.v < 1
        state.forget = self.event_time + timedelta(seconds=20)

    def on_timer(self, at: datetime, state: Fraud, out: Out) -> None:
        out(self.key, f"quiet at {at.time()}")


def fraud() -> Trial:
    returns = {"k": "string", "why": "string"}
    outputs = {"audit": {"k": "string"}}
    return Trial(Fraud, key="k", rows=ROWS, event_time="at", returns=returns, outputs=outputs)


def test_a_class_is_tried_with_literals() -> None:
    trial = fraud()
    trial.row(k="a", v=0, at="2026-01-31T08:00:00")
    trial.row(k="a", v=900, at=at(10))
    assert trial.out == []
    trial.watermark("2026-01-31T08:00:30")
    assert trial.out == [{"k": "a", "why": "a large payment behind a small one"}]
    assert trial.outputs["audit"] == [{"k": "a"}]
    assert trial.state("a").last_small is False
    assert trial.timers("a") == {"forget": at(30)}
    assert trial.timers("b") == {}
    trial.end()
    assert trial.out[-1] == {"k": "a", "why": "quiet at 08:00:30"}


def test_a_value_is_forgotten_so_long_after_it_was_set() -> None:
    trial = fraud()
    trial.rows({"k": "a", "v": 0, "at": at(0)}, {"k": "a", "v": 900, "at": at(60)})
    trial.rows({"k": "b", "v": 0, "at": at(0)}, {"k": "b", "v": 900, "at": at(61)})
    trial.watermark(at(62))
    assert [row["k"] for row in trial.outputs["audit"]] == ["a"]


def test_rows_wait_until_the_watermark_is_behind_them_and_are_handled_in_time_order() -> None:
    seen: list[int] = []

    class Seeing(Process):
        def on_row(self, row: Payment, state: object, out: Out) -> None:
            seen.append(row.v)

    trial = Trial(Seeing, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.rows(*({"k": "a", "v": v, "at": at(v)} for v in (3, 1, 2)))
    trial.watermark(at(2))
    assert seen == [1]
    trial.row(k="b", v=1, at=at(1))
    trial.row(k="b", v=2, at=at(2))
    assert [row["v"] for row in trial.late] == [1]
    trial.end()
    assert seen == [1, 2, 2, 3]


def test_a_row_at_the_time_of_a_timer_comes_before_it() -> None:
    said: list[str] = []

    class Telling(Process):
        stop = timer()

        def on_row(self, row: Payment, state: Telling, out: Out) -> None:
            said.append(f"row {row.v}")
            if state.stop is None:
                state.stop = self.event_time + timedelta(seconds=2)

        def on_timer(self, at: datetime, state: Telling, out: Out) -> None:
            assert state.stop is None and self.timer == "stop" and self.event_time == at
            said.append(f"timer {(at - START).seconds}")

    trial = Trial(Telling, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.rows(*({"k": "a", "v": v, "at": at(v)} for v in (0, 1, 2, 3)))
    trial.watermark(at(2))
    assert said == ["row 0", "row 1"]
    trial.watermark(at(2.5))
    assert said == ["row 0", "row 1", "row 2", "timer 2"]
    trial.end()
    assert said[4:] == ["row 3", "timer 5"]


def test_timers_by_the_wall_clock() -> None:
    rows = {"k": "bigint", "s": "string", "v": "bigint"}
    returns = {"k": "bigint", "n": "bigint", "total": "bigint"}
    trial = Trial(Waking, key="k", rows=rows, returns=returns)
    trial.row(k=1)
    assert trial.timers(1) == {"wake": datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)}
    trial.clock("2026-01-01T00:00:01")
    trial.row(k=1)
    assert [row["total"] for row in trial.out] == [1, 2]
    trial.clock("2026-01-01T00:00:05")
    assert trial.out[2:] == [{"k": 1, "n": 0, "total": 2}]
    trial.row(k=1)
    assert trial.out[-1]["total"] == 1


def test_a_timer_set_to_what_has_passed_comes_at_once() -> None:
    class Hasty(Process):
        now_or_never = timer()

        def on_row(self, row: Payment, state: Hasty, out: Out) -> None:
            state.now_or_never = self.event_time - timedelta(days=1)

        def on_timer(self, at: datetime, state: Hasty, out: Out) -> None:
            out(at)

    trial = Trial(Hasty, key="k", rows=ROWS, event_time="at", returns={"at": "timestamp"})
    trial.row(k="a", v=1, at=at(5))
    trial.watermark(at(6))
    assert trial.out == [{"at": at(5)}]


def test_lists_and_maps_are_those_of_python() -> None:
    class Keeping(Process):
        all = list_of("bigint")
        latest = map_of("string", "bigint")

        def on_row(self, row: Payment, state: Keeping, out: Out) -> None:
            state.all.append(row.v)
            state.latest[str(row.v % 2)] = row.v
            out(sorted(state.all, reverse=True)[:2], sum(state.latest.values()))

    returns = {"best": "array<bigint>", "latest": "bigint"}
    trial = Trial(Keeping, key="k", rows=ROWS, event_time="at", returns=returns)
    trial.rows(*({"k": "a", "v": v, "at": at(v)} for v in (1, 2, 3)))
    trial.end()
    assert trial.out == [
        {"best": [1], "latest": 1},
        {"best": [2, 1], "latest": 3},
        {"best": [3, 2], "latest": 5},
    ]


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("out(k=row.k, n='x')", "column \"n\" is declared bigint, and got 'x' (str)", ""),
        ("out(k=row.k, m=1)", "unexpected keyword argument 'm'", "its columns are k, n"),
        ("out.audit(k=1)", "'function' object has no attribute 'audit'", "outputs: {...}"),
        ("state.cuont = 1", 'no state "cuont": did you mean "count"?', ""),
        ("state.cuont", 'declares no state "cuont": did you mean "count"?', ""),
        ("row.amount", "no attribute 'amount'", ""),
        ("self.count", "state belongs to a key: read it as state.count", ""),
        ("1 / 0", "ZeroDivisionError: division by zero", ""),
    ],
)
def test_what_is_wrong_is_told_with_the_row_and_the_key(body: str, message: str, hint: str) -> None:
    scope: dict[str, type] = {"Process": Process, "value": value}  # type: ignore[dict-item]
    exec(
        "class Wrong(Process):\n    __module__ = 'tests.process.test_trial'\n"
        f"    count = value('bigint')\n    def on_row(self, row, state, out): {body}\n",
        scope,
    )
    trial = Trial(
        scope["Wrong"],
        key="k",
        rows=ROWS,
        event_time="at",
        returns={"k": "string", "n": "bigint"},
    )
    trial.row(k="a", v=7, at=at(0))
    with pytest.raises(UserCodeError) as raised:
        trial.end()
    assert message in raised.value.message
    assert "'v': 7" in raised.value.message and "of the key 'a'" in raised.value.message
    assert hint in raised.value.hint


def test_a_timer_that_sets_itself_for_ever_has_an_end() -> None:
    class Endless(Process):
        tick = timer()

        def on_row(self, row: Payment, state: Endless, out: Out) -> None:
            state.tick = self.event_time

        def on_timer(self, at: datetime, state: Endless, out: Out) -> None:
            state.tick = at + timedelta(minutes=1)

    trial = Trial(Endless, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    trial.watermark(at(600))
    with pytest.raises(UserCodeError, match="timer \"tick\" of the key 'a' came 100001 times"):
        trial.end()


@pytest.mark.parametrize("clock", ["event", "processing"])
def test_a_timer_that_sets_itself_to_what_has_passed_has_an_end(
    clock: Literal["event", "processing"],
) -> None:
    class Endless(Process):
        tick = timer(time=clock)

        def on_row(self, row: Payment, state: Endless, out: Out) -> None:
            state.tick = self.event_time if clock == "event" else self.now

        def on_timer(self, at: datetime, state: Endless, out: Out) -> None:
            state.tick = at - timedelta(hours=1)

    trial = Trial(Endless, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    message = "test_trial.py:Endless: timer \"tick\" of the key 'a' came 100001 times while it was "
    with pytest.raises(UserCodeError, match=re.escape(message)):
        trial.watermark(at(600))
        trial.clock("2026-01-01T00:00:01")


class Lately(Process):
    n = value("bigint", ttl="10s", time="processing")

    def on_row(self, row: Payment, state: Lately, out: Out) -> None:
        out(row.k, state.n)
        state.n = row.v


class ManyLately(Process):
    n = value("bigint", ttl="10s", time="processing")

    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
        out(rows.select("k", n=state.n.get()))
        state.n.set(rows["v"])


@pytest.mark.parametrize("kind", [Lately, ManyLately])
def test_what_goes_by_the_wall_clock_is_forgotten_and_freed(kind: type[Process]) -> None:
    rows = {"k": "string", "v": "bigint"}
    trial = Trial(kind, key="k", rows=rows, returns={"k": "string", "n": "bigint"})
    for second in (0, 5, 20):
        trial.clock(datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC))
        trial.row(k="a", v=second)
    assert [row["n"] for row in trial.out] == [None, 0, None]
    operator = trial._operator
    assert isinstance(operator, Processing)
    operator.settle()
    assert operator._kept.tables["n"].rows == 1
    trial.clock("2026-01-01T00:01:00")
    assert operator._kept.tables["n"].rows == 0
    assert operator.due_us() is None


class Returning(Process):
    def on_row(self, row: Payment, state: Returning, out: Out) -> dict[str, object]:  # type: ignore[override]
        return {"k": row.k}


class Yielding(Process):
    def on_row(self, row: Payment, state: Yielding, out: Out) -> Iterator[object]:  # type: ignore[override]
        yield {"k": row.k}


class ReturningMany(Process):
    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> pl.DataFrame:  # type: ignore[override]
        return rows.select("k")


class ReturningLate(Process):
    alarm = timer()

    def on_row(self, row: Payment, state: ReturningLate, out: Out) -> None:
        state.alarm = self.event_time

    def on_timer(self, at: datetime, state: ReturningLate, out: Out) -> int:  # type: ignore[override]
        return 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Returning, "Returning: on_row returned a dict (in the row {'k': 'a', 'v': 7"),
        (Yielding, "Yielding: on_row yields (in the row {'k': 'a', 'v': 7"),
        (ReturningMany, "ReturningMany: on_rows returned a DataFrame (in 1 rows)"),
        (ReturningLate, 'ReturningLate: on_timer returned a int (in timer "alarm" at 2026'),
    ],
)
def test_a_method_that_returns_something_is_told(kind: type[Process], message: str) -> None:
    trial = Trial(kind, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    with pytest.raises(UserCodeError, match=re.escape(message)) as raised:
        trial.end()
    assert raised.value.hint == "what goes out is handed to out(...); a method returns nothing"


class Misspelt(Process):
    count = value("bigint")

    def on_row(self, row: Payment, state: Any, out: Out) -> None:
        state.cuont = 5


class OutLate(Process):
    alarm = timer()

    def on_row(self, row: Payment, state: OutLate, out: Out) -> None:
        state.alarm = self.event_time

    def on_timer(self, at: datetime, state: OutLate, out: Out) -> None:
        out(5)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            Misspelt,
            'AttributeError: the class declares no state "cuont": did you mean "count"? (in',
        ),
        (OutLate, "(int) (in timer \"alarm\" at 2026-01-31 08:00:00+00:00 of the key 'a')"),
    ],
)
def test_what_is_misspelt_or_misfits_is_told(kind: type[Process], message: str) -> None:
    trial = Trial(kind, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    with pytest.raises(UserCodeError, match=re.escape(message)):
        trial.end()


def test_many_rows_at_once_come_apart_at_the_timers_of_their_key() -> None:
    rows = {"k": "bigint", "v": "bigint", "at": "timestamp"}
    outputs = {"odd": {"v": "bigint"}}
    trial = Trial(
        ManySessions,
        key="k",
        rows=rows,
        event_time="at",
        returns={"k": "bigint", "n": "bigint", "total": "bigint"},
        outputs=outputs,
    )
    trial.rows(*({"k": k, "v": k + t, "at": at(t)} for k in (1, 2) for t in (0, 10)))
    trial.watermark(at(20))
    trial.rows({"k": 1, "v": 1, "at": at(75)}, {"k": 2, "v": 2, "at": at(60)})
    trial.watermark(at(90))
    assert trial.out == [{"k": 1, "n": 2, "total": 0}]
    assert [row["v"] for row in trial.outputs["odd"]] == [1, 11, 1]
    trial.end()
    shown = sorted((row["k"], row["n"]) for row in trial.out)
    assert shown == [(1, 1), (1, 2), (2, 3)]


def test_rows_of_a_class_have_its_columns_only() -> None:
    class Alien(Row):
        amuont: float

    class Wrong(Process):
        def on_row(self, row: Alien, state: object, out: Out) -> None: ...

    # Names inside of a function are not found: so it is said here.
    Wrong.on_row.__annotations__["row"] = Alien
    with pytest.raises(UserCodeError, match='row class Alien has "amuont", and rows have not'):
        Trial(Wrong, key="k", rows=ROWS, event_time="at", returns={"k": "string"})


@pytest.mark.parametrize("kind", [Totals, Sessions])
def test_what_comes_out_does_not_depend_on_when_watermarks_come(kind: type[Process]) -> None:
    rows = {"k": "bigint", "s": "string", "v": "bigint", "at": "timestamp"}
    returns = {"k": "bigint", "n": "bigint", "total": "bigint"}
    frame = pl.select(n=pl.int_range(60)).select(
        k=pl.col("n") % 3, v=pl.col("n") % 11 - 5, t=(pl.col("n") * 7) % 40
    )
    found = []
    for marks in ((), (5, 10, 15, 20, 25, 30), (39,)):
        trial = Trial(kind, key="k", rows=rows, event_time="at", returns=returns)
        left = list(frame.rows())
        for mark in (*marks, 100):
            now = [each for each in left if each[2] < mark]
            left = [each for each in left if each[2] >= mark]
            trial.rows(*({"k": k, "s": str(v), "v": v, "at": at(t)} for k, v, t in now))
            trial.watermark(at(mark))
        trial.end()
        found.append(sorted(map(repr, trial.out)))
    assert found[0] == found[1] == found[2] and len(found[0]) > 2


def test_rows_of_two_inputs_have_one_state() -> None:
    trial = Trial(
        Matched,
        key="k",
        left={"k": "bigint", "s": "string", "v": "bigint", "at": "timestamp"},
        right={"k": "bigint", "v": "bigint", "at": "timestamp"},
        event_time="at",
        returns={"k": "bigint", "n": "bigint", "total": "bigint"},
    )
    trial.right(k=1, v=7, at=at(2))
    trial.left(k=1, v=5, at=at(1))
    trial.left(k=2, v=4, at=at(1))
    trial.right(k=2, v=1, at=at(5))
    trial.watermark(at(3))
    assert trial.out == [{"k": 1, "n": 1, "total": 705}]
    assert trial.state(2).open == [4] and trial.timers(2) == {"late": at(4)}
    trial.right(k=2, v=9, at=at(1))
    assert [row["v"] for row in trial.late] == [9]
    trial.end()
    assert trial.out[1:] == [{"k": 2, "n": 0, "total": 4}, {"k": 2, "n": -1, "total": 1}]
