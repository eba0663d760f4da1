"""The classes and functions of a user, whom the tests of windows name; they are exact."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import polars as pl

from headrace import Aggregate, Trigger, Window, timer

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Total(Aggregate[dict[str, int]]):
    """The sum of a column, with how many values it is of."""

    state: ClassVar = {"n": "bigint", "total": "bigint"}

    def partial(self, values: pl.Series) -> dict[str, int]:
        return {"n": values.len(), "total": int(values.sum())}

    def merge(self, partials: Sequence[dict[str, int]]) -> dict[str, int]:
        return {name: sum(each[name] for each in partials) for name in ("n", "total")}

    def finish(self, partial: dict[str, int]) -> str:
        return f"{partial['total']} of {partial['n']}"


class Median(Aggregate[dict[str, pl.Series]]):
    """The lower median of whole numbers; all of them are kept."""

    state: ClassVar = {"values": "array<bigint>"}

    def partial(self, values: pl.Series) -> dict[str, pl.Series]:
        return {"values": values.drop_nulls()}

    def merge(self, partials: Sequence[dict[str, pl.Series]]) -> dict[str, pl.Series]:
        return {"values": pl.concat([each["values"] for each in partials])}

    def finish(self, partial: dict[str, pl.Series]) -> object:
        return partial["values"].quantile(0.5, "lower")


class Words(Aggregate[list[str]]):
    """The texts of one column with the least number of another, as JSON."""

    def partial(self, words: pl.Series, numbers: pl.Series) -> list[Any]:
        return [sorted(word for word in set(words) if word is not None), numbers.min()]

    def merge(self, partials: Sequence[list[Any]]) -> list[Any]:
        least = min((n for _, n in partials if n is not None), default=None)
        return [sorted({word for words, _ in partials for word in words}), least]

    def finish(self, partial: list[Any]) -> str:
        return f"{' '.join(partial[0])} {partial[1]}"


def spread(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with their number, every second one."""
    numbered = rows.select("v", "s", at=pl.int_range(pl.len(), dtype=pl.Int64))
    return numbered.filter(pl.col("at") % 2 == 0)


def brief(rows: pl.DataFrame) -> list[dict[str, object]] | dict[str, object] | None:
    """One row of the numbers in their order; of few rows none."""
    numbers = rows["v"].to_list()
    return {"text": f"{numbers}", "n": len(numbers)} if len(numbers) > 1 else None


def small(rows: pl.DataFrame) -> pl.Series:
    """The rows whose number is small or unknown."""
    return rows["v"].fill_null(0) < 2


class Odd:
    """Every second row."""

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.gather_every(2)


def least(times: Sequence[datetime | None]) -> datetime | None:
    """Return the first of some times."""
    return min((at for at in times if at is not None), default=None)


class EveryThree(Trigger):
    """Each time the values that have come add up to three more."""

    state: ClassVar = {"seen": "bigint"}

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        assert window.start is None or window.end is not None
        state["seen"] = (state["seen"] or 0) + abs(row["v"] or 0)
        if state["seen"] < 3:
            return False
        state["seen"] = 0
        return True

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {"seen": sum(each["seen"] or 0 for each in states)}


def set_timers(row: dict[str, Any], state: dict[str, Any]) -> bool:
    """Set or delete a timer by the value of a row; every third row fires."""
    value = row.get("v", row.get("x")) or 0
    state["n"] = (state["n"] or 0) + 1
    if value % 4 == 0:
        state["soon"] = EPOCH + timedelta(seconds=2 * value)
    elif value % 4 == 1:
        state["later"] = EPOCH + timedelta(seconds=2 * value + 5)
    elif value % 4 == 2:
        state["soon"] = None
    return bool(state["n"] % 3 == 0)


def count_timer(name: str | None, at: datetime, state: dict[str, Any]) -> bool:
    """Count a timer, and perhaps set another one, also to the past; every second one fires."""
    assert name is not None and state[name] is None
    state["n"] += 1
    if name == "later" and at < EPOCH + timedelta(seconds=15):
        state["soon"] = at + timedelta(seconds=state["n"] % 3 - 1)
    return bool(state["n"] % 2 == 0)


class Reminded(Trigger):
    """Goes by the number of rows and of timers that have fired; the values of rows set timers."""

    state: ClassVar = {"n": "bigint"}
    soon = timer()
    later = timer()

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        assert self.timer is None
        return set_timers(row, state)

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return count_timer(self.timer, at, state)

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        times = {name: least([each[name] for each in states]) for name in states[0] if name != "n"}
        return {"n": sum(each["n"] or 0 for each in states), **times}


class Awaited(Trigger):
    """The same with a timer by the wall clock."""

    state: ClassVar = {"n": "bigint"}
    soon = timer()
    later = timer()
    wake = timer(time="processing")

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        value = row.get("v", row.get("x")) or 0
        if value % 4 == 3:
            state["wake"] = self.now + timedelta(seconds=value)
        return set_timers(row, state)

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return count_timer(self.timer, at, state)

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        times = {name: least([each[name] for each in states]) for name in states[0] if name != "n"}
        return {"n": sum(each["n"] or 0 for each in states), **times}


def set_alarms(now: datetime, value: int, state: dict[str, Any]) -> bool:
    """Set or delete timers by the wall clock, later than now; every fourth row fires."""
    state["n"] = (state["n"] or 0) + 1
    if value % 4 == 0:
        state["wake"] = now + timedelta(seconds=1.0625 + abs(value))
    elif value % 4 == 1:
        state["again"] = now + timedelta(seconds=3.5)
    elif value % 4 == 2:
        state["wake"] = None
    return bool(state["n"] % 4 == 0)


def count_alarm(trigger: Trigger, at: datetime, state: dict[str, Any]) -> bool:
    """Count a timer, which may set the others; both clocks decide whether it fires."""
    assert trigger.timer is not None and state[trigger.timer] is None
    state["n"] += 1
    if trigger.timer == "wake" and state["n"] % 3:
        state["again"] = at + timedelta(seconds=state["n"] % 3 - 1)
    elif trigger.timer == "soon":
        state["wake"] = trigger.now + timedelta(seconds=state["n"] % 3 / 2)
    elif "soon" in state and state["n"] % 2:
        state["soon"] = at
    seconds = [trigger.now.second, trigger.watermark.second if trigger.watermark else 0]
    return bool((state["n"] + sum(seconds)) % 2 == 0)


class Alarmed(Trigger):
    """Goes by rows, and by timers of both clocks, which rows and timers set."""

    state: ClassVar = {"n": "bigint"}
    soon = timer()
    wake = timer(time="processing")
    again = timer(time="processing")

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        value = row["v"] or 0
        if value % 3 == 0:
            state["soon"] = (self.watermark or EPOCH) + timedelta(seconds=value)
        return set_alarms(self.now, value, state)

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return count_alarm(self, at, state)

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        times = {name: least([each[name] for each in states]) for name in states[0] if name != "n"}
        return {"n": sum(each["n"] or 0 for each in states), **times}


class WallAlarmed(Trigger):
    """The same without a timer of event time."""

    state: ClassVar = {"n": "bigint"}
    wake = timer(time="processing")
    again = timer(time="processing")

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        return set_alarms(self.now, row["v"] or 0, state)

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return count_alarm(self, at, state)

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        times = {name: least([each[name] for each in states]) for name in states[0] if name != "n"}
        return {"n": sum(each["n"] or 0 for each in states), **times}


class Clocked(Trigger):
    """Fires a number of seconds after the first row."""

    state: ClassVar = {"n": "bigint"}
    wake = timer(time="processing")

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        state["wake"] = state["wake"] or self.now + timedelta(seconds=abs(row["v"] or 0))
        return False

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return True

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return {"n": None, "wake": least([each["wake"] for each in states])}


class Settled(Trigger):
    """Fires when no row has come for ten seconds."""

    settled = timer()

    def on_row(self, row: dict[str, Any], state: dict[str, Any], window: Window) -> bool:
        state["settled"] = row["at"] + timedelta(seconds=10)
        return False

    def on_timer(self, at: datetime, state: dict[str, Any], window: Window) -> bool:
        return True

    def merge(self, states: Sequence[dict[str, Any]]) -> dict[str, Any]:
        return states[-1]
