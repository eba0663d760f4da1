"""The row counters of subtasks, by part, as plain data: part of a checkpoint.

A job continues its counters from there at any parallelism: a checkpoint has the sums over the
subtasks of a part, and new subtasks count from 0.

    {"parts": {"orders": [120, 118, 2], ...},    rows in, rows out, bad rows of each part
     "failed": {"scored": 2},                    rows that failed since the job began: they number
                                                 dead letters, so a subtask has each number once
     "windows": {"totals": [3, 0]},              late, unfilled
     "metrics": {"alerts": {"counters": {...}, "gauges": {...}}}}    of user code, if there are any
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from headrace.core.api.user_metrics import MetricValues, add_values, continue_values
from headrace.core.coordination.messages import Snapshot
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PartCounters:
    """The row counters of a part."""

    rows_in: int = 0
    rows_out: int = 0
    bad_rows: int = 0
    late_rows: int = 0
    unfilled_rows: int = 0
    metrics: MetricValues = field(default_factory=MetricValues)
    """The metrics of the part's user code."""

    def to_document(self) -> list[int]:
        """Return the numbers in the order in which they are stored."""
        return [self.rows_in, self.rows_out, self.bad_rows, self.late_rows, self.unfilled_rows]

    @classmethod
    def from_document(cls, document: Iterable[int]) -> PartCounters:
        """Parse the stored form."""
        rows_in, rows_out, bad, late, unfilled = document
        return cls(
            rows_in=rows_in, rows_out=rows_out, bad_rows=bad, late_rows=late, unfilled_rows=unfilled
        )


@dataclass(frozen=True, slots=True)
class JobCounters:
    """The counters of all subtasks at a checkpoint."""

    parts: Mapping[str, PartCounters] = field(default_factory=dict)
    failed_rows: Mapping[str, int] = field(default_factory=dict)
    """The number of failed rows, by step: subtasks number dead letters from there."""

    def to_document(self) -> dict[str, object]:
        """Return the counters as plain data."""
        parts = {name: counters.to_document() for name, counters in self.parts.items()}
        metrics = {name: c.metrics.to_document() for name, c in self.parts.items() if c.metrics}
        document = {"parts": parts, "failed": dict(self.failed_rows)}
        return document | ({"metrics": metrics} if metrics else {})

    @classmethod
    def from_document(cls, document: Any) -> JobCounters:
        """Return the counters of plain data."""
        metrics = document.get("metrics", {})
        parts = {
            name: _parse_counters(stored, metrics.get(name))
            for name, stored in document["parts"].items()
        }
        return cls(parts, document["failed"])


def add_snapshots(before: JobCounters, snapshots: Iterable[Snapshot]) -> JobCounters:
    """Add the counters of snapshots to those of earlier attempts.

    A stored state has its own counts of late and unfilled rows, and its metrics.
    """
    counted_parts, failed = dict[str, PartCounters](), dict(before.failed_rows)
    for snapshot in snapshots:
        counted: Any = snapshot.counts or {"parts": {}, "failed": {}, "windows": {}}
        for name, three in counted["parts"].items():
            two, metrics = (0, 0), None
            if not snapshot.states.get(name):
                two = counted["windows"].get(name, (0, 0))
                metrics = counted.get("metrics", {}).get(name)
            counters = _parse_counters((*three, *two), metrics)
            counted_parts[name] = _add_counters(counted_parts.get(name, PartCounters()), counters)
        for step, count in counted["failed"].items():
            failed[step] = max(failed.get(step, 0), count)
    parts = dict(before.parts)
    for name, counters in counted_parts.items():
        earlier = parts.get(name, PartCounters())
        metrics = continue_values(earlier.metrics, counters.metrics)
        parts[name] = replace(_add_counters(earlier, counters), metrics=metrics)
    return JobCounters(parts, failed)


def _parse_counters(stored: Iterable[int], metrics: Any) -> PartCounters:
    counters = PartCounters.from_document(stored)
    if metrics is None:
        return counters
    return replace(counters, metrics=MetricValues.from_document(metrics))


def _add_counters(one: PartCounters, more: PartCounters) -> PartCounters:
    pairs = zip(one.to_document(), more.to_document(), strict=True)
    counters = PartCounters.from_document(a + b for a, b in pairs)
    return replace(counters, metrics=add_values((one.metrics, more.metrics)))
