"""The firing of timers and the expiry of state, by either clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from headrace import AllOut, AllState, Out, Process, Trial, timer, value
from headrace.core.operators.process.process_operator import ProcessOperator
from tests.support.trials import ROWS, START, Payment, at
from tests.support.user_code.process_classes import Waking


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


class Late(Process):
    n = value("bigint", default=0, ttl="10s")
    stop = timer()

    def on_row(self, row: Payment, state: Late, out: Out) -> None:
        state.n += 1
        state.stop = self.event_time + timedelta(seconds=1)

    def on_timer(self, at: datetime, state: Late, out: Out) -> None:
        out(n=state.n, at=at)


class ManyLate(Late):
    n = value("bigint", default=0, ttl="10s")
    stop = timer()
    on_row = None  # type: ignore[assignment]

    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
        state.n.set(state.n.get() + 1)
        state.stop.set(self.event_times + timedelta(seconds=1))


@pytest.mark.parametrize("kind", [Late, ManyLate])
def test_for_rows_that_come_late_it_is_what_the_watermark_says(kind: type[Process]) -> None:
    returns = {"n": "bigint", "at": "timestamp"}
    trial = Trial(kind, key="k", rows=ROWS, event_time="at", returns=returns, order="arrival")
    for came, watermark in ((100, 100), (50, 101), (51, 105)):
        trial.row(k="a", v=1, at=at(came))
        trial.watermark(at(watermark))
    assert trial.out == [{"n": 2, "at": at(100)}, {"n": 3, "at": at(101)}]


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
def test_values_by_the_wall_clock_expire_and_are_freed(kind: type[Process]) -> None:
    rows = {"k": "string", "v": "bigint"}
    trial = Trial(kind, key="k", rows=rows, returns={"k": "string", "n": "bigint"})
    for second in (0, 5, 20):
        trial.clock(datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC))
        trial.row(k="a", v=second)
    assert [row["n"] for row in trial.out] == [None, 0, None]
    operator = trial._operator
    assert isinstance(operator, ProcessOperator)
    operator.flush_to_state()
    assert operator._state.cache.tables["n"].rows == 1
    trial.clock("2026-01-01T00:01:00")
    assert operator._state.cache.tables["n"].rows == 0
    assert operator.next_tick_us() is None
