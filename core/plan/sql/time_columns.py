"""Which columns of a stream tell the event time of its rows.

`tumble(at, interval 1 minute)` names a column, and windows go by the event time of rows: both are
the same if the source says `event_time: at`, and the steps between pass the column on. The event
time of the result of a window is a microsecond before `window_end`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.core.expressions.typed import ColumnReference
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import AsOfMatch, BroadcastMatch, IntervalMatch
from headrace.core.plan.nodes.windows import Cumulate, Slide, Tumble, Window
from headrace.core.types.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TimeColumn:
    """The distance between a column and the event time of its rows."""

    after_us: int = 0
    windows: Tumble | None = None
    """For ends of windows: adjacent windows, one of which ends at each value of the column."""


WINDOW_END = "window_end"
TimeColumns = Mapping[str, TimeColumn]


class TimeColumnFinder:
    """Finds the columns of streams that tell the event time of their rows, and remembers them."""

    def __init__(self, parts: Mapping[str, nodes.Source | nodes.Step]) -> None:
        self._parts = parts
        self._found: dict[str, TimeColumns] = {}

    def find(self, stream: str) -> TimeColumns:
        """Return the columns of a stream by their names."""
        if stream not in self._found:
            self._found[stream] = self._find(stream)
        return self._found[stream]

    def _find(self, stream: str) -> TimeColumns:
        part = self._parts.get(stream) or self._find_producer(stream)
        match part:
            case nodes.Source(event_time=str() as time):
                return {time: TimeColumn()} if time in part.schema.names else {}
            case nodes.Step(inputs=inputs) if stream not in part.side_outputs:
                found = [self.find(each) for each in inputs]
                times: TimeColumns = {
                    name: time
                    for name, time in found[0].items()
                    if all(each.get(name) == time for each in found)
                }
                operations = part.operations
                if operations and isinstance(operations[0], nodes.Join):
                    times = _after_join(operations[0], found[0], found[-1])
                    operations = operations[1:]
                for operation in operations:
                    times = _after(operation, times)
                return times
        return {}

    def _find_producer(self, stream: str) -> nodes.Source | nodes.Step | None:
        """Return the part with an output that has not its own name."""
        outputs = ((out.name, part) for part in self._parts.values() for out in part.outputs)
        return next((part for name, part in outputs if name == stream), None)


def _after_join(join: nodes.Join, left: TimeColumns, right: TimeColumns) -> TimeColumns:
    """Return the columns that tell the event time of the rows of a join.

    That of a pair is the later one of two: that of one side, if the bounds say which side is later.
    """
    match join.matching:
        case AsOfMatch() | BroadcastMatch():
            return _select(join.left.columns, left)
        case IntervalMatch(int(least), int(most), uses_processing_time=False) if (
            join.type == "inner"
        ):
            lefts = _select(join.left.columns, left) if most <= 0 else {}
            return {**lefts, **(_select(join.right.columns, right) if least >= 0 else {})}
    return {}


def _after(operation: nodes.Operation, times: TimeColumns) -> TimeColumns:
    """Return the columns that tell the event time after an operation."""
    match operation:
        case nodes.Project(columns=columns):
            return _select(columns, times)
        case nodes.Explode():
            added = {column.name for column in operation.added_columns}
            return {name: time for name, time in times.items() if name not in added}
        case nodes.Aggregate(window=Window() as window, key=key) if not (
            window.uses_processing_time or window.can_fire_again or not window.has_bounds
        ):
            windows = _find_adjacent(window)
            ends = {
                name: time
                for name, time in _select(key, times).items()
                if time.windows == window.shape
            }
            return {**ends, WINDOW_END: TimeColumn(1, windows)}
        case (
            nodes.Filter()
            | nodes.Lookup()
            | nodes.Route()
            | nodes.Dedup()
            | nodes.Over()
            | nodes.WeightConversion()
        ):
            return times
        case nodes.ChangelogConversion(output="retract"):
            return times
    return {}


def _select(columns: Iterable[nodes.ComputedColumn], times: TimeColumns) -> TimeColumns:
    """Return the columns that are others unchanged."""
    return {
        column.name: times[column.value.name]
        for column in columns
        if isinstance(column.value, ColumnReference) and column.value.name in times
    }


def _find_adjacent(window: Window) -> Tumble:
    """Return adjacent windows, one of which ends where any of these windows ends."""
    match window.shape:
        case Tumble() as shape:
            return shape
        case Slide(size, every, offset):
            return Tumble(every, (size + offset) % every)
        case Cumulate(_, every, offset):
            return Tumble(every, offset % every)
    return Tumble(1)
