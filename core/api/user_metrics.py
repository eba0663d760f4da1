"""Counters and gauges of user code: the `metrics` of a `process` class, and their values.

The figures of loops are reported with them: counters, gauges, and a list of rounds.

The values are part of the state of a step: a checkpoint has them, and a restart continues from
there, so that a row is counted once. The values of all subtasks are added up for reports.

Tests: tests/core/operators/process/test_user_metrics.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

MAX_METRICS = 100
"""The maximum number of metrics of a class: the names must not depend on the rows."""

NAME_PATTERN = compile_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


ROUNDS, ROWS_CHANGED = "rounds", "rows_changed"
"""The metrics of a loop: the rounds that have ended, and the rows that they added or removed."""
ROUND_ROWS_CHANGED, ROUND_SECONDS = "round_rows_changed", "round_seconds"
"""The metrics of a loop for its last round: the rows that it added or removed, and its duration."""
LISTED_ROUNDS = 5
"""The first and the last rounds of a loop that are listed."""


@dataclass(frozen=True, slots=True)
class RoundFigures:
    """The figures of a round of a loop over a table."""

    number: int
    rows_changed: int | None
    """The rows that the round added and removed; None: not counted."""
    seconds: float

    def to_document(self) -> Mapping[str, Any]:
        """Return the figures as plain data."""
        changed = {} if self.rows_changed is None else {"rows_changed": self.rows_changed}
        return {"round": self.number, **changed, "seconds": self.seconds}


@dataclass(slots=True)
class MetricValues:
    """The values of the counters and gauges of a class, by name."""

    counters: dict[str, int] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    rounds: list[RoundFigures] = field(default_factory=list)
    """The first and the last rounds of a loop since the start of the attempt. They are not part
    of the state."""

    def __bool__(self) -> bool:
        return bool(self.counters or self.gauges)

    def copy(self) -> MetricValues:
        """Return a copy that does not change."""
        return MetricValues(dict(self.counters), dict(self.gauges), [*self.rounds])

    def record_round(self, figures: RoundFigures) -> None:
        """Add a round that has ended, and forget one in the middle if there are too many."""
        self.rounds.append(figures)
        if len(self.rounds) > 2 * LISTED_ROUNDS:
            del self.rounds[LISTED_ROUNDS]

    def assign(self, values: MetricValues) -> None:
        """Take over values, in the same dictionaries, which counters and gauges refer to."""
        for own, others in ((self.counters, values.counters), (self.gauges, values.gauges)):
            own.clear()
            own.update(others)  # type: ignore[arg-type]

    def list_all(self) -> dict[str, float]:
        """Return counters and gauges by name: no name is used for both."""
        return {**self.counters, **self.gauges}

    def list_rounds(self) -> list[Mapping[str, Any]]:
        """Return the rounds as plain data."""
        return [figures.to_document() for figures in self.rounds]

    def to_document(self) -> Mapping[str, Any]:
        """Return the values as plain data."""
        return {"counters": dict(self.counters), "gauges": dict(self.gauges)}

    @classmethod
    def from_document(cls, document: Any) -> MetricValues:
        """Return the values of plain data."""
        return cls(dict(document["counters"]), dict(document["gauges"]))


def add_values(each: Iterable[MetricValues]) -> MetricValues:
    """Add up values by name.

    >>> add_values([MetricValues({"seen": 2}), MetricValues({"seen": 1}, {"open": 0.5})])
    MetricValues(counters={'seen': 3}, gauges={'open': 0.5}, rounds=[])
    """
    total = MetricValues()
    for values in each:
        for name, count in values.counters.items():
            total.counters[name] = total.counters.get(name, 0) + count
        for name, value in values.gauges.items():
            total.gauges[name] = total.gauges.get(name, 0) + value
        total.rounds += values.rounds
    return total


def continue_values(before: MetricValues, now: MetricValues) -> MetricValues:
    """Add counters to those before a restart; gauges that were set since then replace earlier ones.

    >>> before = MetricValues({"seen": 2}, {"open": 4, "held": 1})
    >>> continue_values(before, MetricValues({"seen": 1}, {"open": 3}))
    MetricValues(counters={'seen': 3}, gauges={'open': 3, 'held': 1}, rounds=[])
    """
    total = add_values((before, now))
    total.gauges |= now.gauges
    return total


class Counter:
    """A number that only grows. It is the same through restarts: each row is counted once."""

    __slots__ = ("_counts", "_name")

    def __init__(self, name: str, counts: dict[str, int]) -> None:
        self._name, self._counts = name, counts
        counts.setdefault(name, 0)

    def add(self, count: int = 1) -> None:
        """Add to the counter."""
        whole = count if count.__class__ is int else operator.index(count)
        if whole < 0:
            raise ValueError(f'counter "{self._name}": wanted 0 or more, got {count}')
        self._counts[self._name] = self._counts.get(self._name, 0) + whole


class Gauge:
    """A number that is set. Those of all subtasks are added up."""

    __slots__ = ("_name", "_values")

    def __init__(self, name: str, values: dict[str, float]) -> None:
        self._name, self._values = name, values

    def set(self, value: float) -> None:
        """Set the value."""
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f'gauge "{self._name}": wanted a finite number, got {value!r}')
        self._values[self._name] = value


class Metrics:
    """The counters and gauges of a class; each begins to exist when it is first asked for."""

    def __init__(self) -> None:
        self._values = MetricValues()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}

    def counter(self, name: str) -> Counter:
        """Return the counter of that name."""
        found = self._counters.get(name)
        if found is None:
            self._check_name(name, self._gauges, "a gauge")
            found = self._counters[name] = Counter(name, self._values.counters)
        return found

    def gauge(self, name: str) -> Gauge:
        """Return the gauge of that name."""
        found = self._gauges.get(name)
        if found is None:
            self._check_name(name, self._counters, "a counter")
            found = self._gauges[name] = Gauge(name, self._values.gauges)
        return found

    def _restore(self, restored: MetricValues) -> MetricValues:
        """Continue from restored values, and return the values, which change from then on."""
        known = self._values.copy()
        self._values.assign(continue_values(restored, known))
        return self._values

    def _check_name(self, name: str, others: Mapping[str, object], kind: str) -> None:
        if not isinstance(name, str) or not NAME_PATTERN.fullmatch(name):
            wanted = "letters, digits and _, at most 100"
            raise ValueError(f"metrics: wanted a name of {wanted}, got {name!r}")
        if name in others:
            raise ValueError(f'metrics: "{name}" is {kind} already')
        if len(self._counters) + len(self._gauges) >= MAX_METRICS:
            message = f"metrics: {MAX_METRICS} names are in use, and {name!r} is another one"
            raise ValueError(f"{message}: names must not depend on the rows")
