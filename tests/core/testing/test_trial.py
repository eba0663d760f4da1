"""User-defined classes over literal rows, watermarks and times."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from headrace import AllOut, AllState, Out, Process, Trial, list_of, map_of, timer, value
from tests.support.trials import ROWS, Payment, at
from tests.support.user_code.process_classes import ManySessions, Matched, Sessions, Totals


class Fraud(Process):
    last_small = value("boolean", ttl="1m")
    forget = timer()

    def on_row(self, row: Payment, state: Fraud, out: Out) -> None:
        if state.last_small and row.v > 500:
            out(k=row.k, why="a large payment after a small one")
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
    assert trial.out == [{"k": "a", "why": "a large payment after a small one"}]
    assert trial.outputs["audit"] == [{"k": "a"}]
    assert trial.state("a").last_small is False
    assert trial.timers("a") == {"forget": at(30)}
    assert trial.timers("b") == {}
    trial.end()
    assert trial.out[-1] == {"k": "a", "why": "quiet at 08:00:30"}


def test_a_value_expires_its_ttl_after_it_was_set() -> None:
    trial = fraud()
    trial.rows({"k": "a", "v": 0, "at": at(0)}, {"k": "a", "v": 900, "at": at(60)})
    trial.rows({"k": "b", "v": 0, "at": at(0)}, {"k": "b", "v": 900, "at": at(61)})
    trial.watermark(at(62))
    assert [row["k"] for row in trial.outputs["audit"]] == ["a"]


def test_rows_wait_until_the_watermark_has_passed_them_and_are_handled_in_time_order() -> None:
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


def test_many_rows_see_what_was_before_them_whatever_they_have_set() -> None:
    class Last(Process):
        begin = value("bigint")
        end = timer()

        def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> None:
            state.begin.set(rows["v"] + 1)
            state.end.set(self.event_times)
            state.begin.set(rows["v"])
            out(rows.select(v=state.begin.get(), stop=state.end.get().is_not_null()))

        def on_timer(self, at: datetime, state: Last, out: Out) -> None:
            pass

    returns = {"v": "bigint", "stop": "boolean"}
    trial = Trial(Last, key="k", rows=ROWS, event_time="at", returns=returns)
    trial.rows(*({"k": "a", "v": v, "at": at(v)} for v in (1, 2)))
    trial.watermark(at(3))
    trial.row(k="a", v=7, at=at(7))
    trial.end()
    assert [row["v"] for row in trial.out] == [None, None, 2]
    assert not any(row["stop"] for row in trial.out)


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
