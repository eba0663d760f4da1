"""A test as a batch runs it: all rows are there from the start, and each stream is compared once.

Checkpoints, restarts, savepoints and rescales do not change a result, so a batch passes over them.
So do watermarks and idle splits, unless a row is late.

Tests: tests/core/spark/test_pipeline_tests.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.core.pipeline.pipeline_tests.model import ClockAdvance, ControlEvent
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.testing.bound_tests import BoundTest, Expected, ExpectedStream
from headrace.core.types.lazy_dataclass import dataclass


class NeedsTime(Exception):
    """A test cannot run as a batch, for this reason."""


@dataclass(frozen=True, slots=True)
class WholeResult:
    """The expectations of a test at its end."""

    streams: Sequence[ExpectedStream]
    failures: Sequence[Text] = ()
    """Parts of the message with which the job fails."""


def merge_expectations(test: BoundTest) -> WholeResult:
    """Return what a test expects of each stream as a whole. Raises NeedsTime."""
    events = [event for _, event in test.events]
    if any(isinstance(event, ClockAdvance) for event in events):
        raise NeedsTime("time passes between its events (advance)")
    if ControlEvent("end") not in events:
        raise NeedsTime("its inputs do not end (end: false)")
    end = events.index(ControlEvent("end"))
    found: dict[str, list[tuple[bool, ExpectedStream]]] = {}
    failures = list[Text]()
    for at, event in enumerate(events):
        if not isinstance(event, Expected):
            continue
        if event.written.metrics:
            raise NeedsTime("it compares counters of a stream (metrics)")
        if event.written.failure is not None:
            failures.append(event.written.failure)
        for each in event.streams:
            found.setdefault(each.stream.name, []).append((at > end, each))
    return WholeResult([_merge(name, each) for name, each in found.items()], failures)


def _merge(name: str, compared: Sequence[tuple[bool, ExpectedStream]]) -> ExpectedStream:
    """Return the expectation of all rows of a stream."""
    every = [each for _, each in compared]
    is_final, last = compared[-1]
    if any(each.written.is_changelog for each in every):
        raise NeedsTime(f"it compares the changes of {name} as they came (changelog)")
    if not is_final:
        raise NeedsTime(f"it compares {name} between its events, and not at the end")
    if len(every) == 1 or not isinstance(last.stream.kind, nodes.Append):
        return last
    if any(each.rows is None or _has_other_checks(each) for each in every):
        raise NeedsTime(f"it compares {name} between its events by more than rows")
    tolerance = max(each.written.tolerance for each in every)
    rows = tuple(row for each in every for row in each.rows or ())
    return replace(last, rows=rows, written=replace(last.written, tolerance=tolerance))


def _has_other_checks(expected: ExpectedStream) -> bool:
    written = expected.written
    return any(check is not None for check in (written.contains, written.count, written.where))
