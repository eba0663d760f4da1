"""Which columns of a stream are the event time of its rows.

`tumble(at, interval 1 minute)` names a column, and windows go by the event time of rows: both are
the same if the source says `event_time: at`, and the steps between pass the column on.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.expressions.typed import ColumnReference
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import AsOfMatch, BroadcastMatch

NONE: frozenset[str] = frozenset()


def find_time_columns(
    stream: nodes.Stream, parts: Mapping[str, nodes.Source | nodes.Step]
) -> frozenset[str]:
    """Return the columns of a stream that are the event time of its rows."""
    producers = {out.name: part for part in parts.values() for out in part.outputs}
    return _find_in(stream.name, producers)


def _find_in(name: str, producers: Mapping[str, nodes.Source | nodes.Step]) -> frozenset[str]:
    """Return the columns of the stream of a name, by the part that produces it."""
    part = producers.get(name)
    match part:
        case nodes.Source(event_time=str() as time):
            return frozenset({time} & {*part.schema.names})
        case nodes.Step(inputs=inputs) if name not in part.side_outputs:
            found = [_find_in(each, producers) for each in inputs]
            times = frozenset.intersection(*found)
            if part.operations and isinstance(part.operations[0], nodes.Join):
                times = found[0]
            for operation in part.operations:
                times = _after(operation, times)
            return times
    return NONE


def _after(operation: nodes.Operation, times: frozenset[str]) -> frozenset[str]:
    """Return the columns of the event time after an operation."""
    match operation:
        case nodes.Project(columns=columns):
            return frozenset(
                column.name
                for column in columns
                if isinstance(column.value, ColumnReference) and column.value.name in times
            )
        case nodes.Explode():
            return times - {column.name for column in operation.added_columns}
        case nodes.Join(matching=AsOfMatch() | BroadcastMatch(), left=left):
            return frozenset(
                column.name
                for column in left.columns
                if isinstance(column.value, ColumnReference) and column.value.name in times
            )
        case nodes.Filter() | nodes.Route() | nodes.Dedup() | nodes.WeightConversion():
            return times
        case nodes.ChangelogConversion(output="retract"):
            return times
    return NONE
