"""The columns that a changed pipeline adds to states which count rows that are added and removed.

Stored rows have null in a new column. That is right only if a row that was added before is also
removed with null there. So the column must come, unchanged, from the states that remove rows, and
must be new in these as well: they remove the rows that they have stored. A column that such a state
had already would be removed with its value, and the stored row, with null, would stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.checkpoint.manifest import PartDescription, PartDescriptions
from headrace.core.expressions.typed import ColumnReference, walk
from headrace.core.plan import nodes
from headrace.core.plan.canonical import column_text
from headrace.core.plan.fingerprint import Fingerprint, describe_call
from headrace.core.plan.layout import (
    get_input_streams,
    get_keyed_operation,
    get_stored_rows,
    get_two_input_operation,
)
from headrace.core.types.data_types import quote_name

if TYPE_CHECKING:
    from headrace.core.aggregates.calls import AggregateCall


class AddedColumns:
    """The new columns of a plan, next to the fingerprints of a checkpoint."""

    def __init__(self, plan: nodes.Plan, before: Mapping[str, Fingerprint]) -> None:
        self.plan, self._before = plan, before
        self._producers = {
            stream.name: part
            for part in plan
            if not isinstance(part, nodes.Sink)
            for stream in part.outputs
        }

    def list_unknown(self, name: str, now: Fingerprint) -> list[str]:
        """Return the new columns and calls of the state of a step that may have had values."""
        step = self.plan.part(name)
        assert isinstance(step, nodes.Step), "only steps have states of rows"
        was, keyed = self._before[name], get_keyed_operation(step)
        new = [name for name in now.columns if name not in was.columns]
        if (join := get_two_input_operation(step)) is not None:
            sides = zip((join.left, join.right), get_input_streams(step), strict=True)
            is_null = {
                f"{side.name}.{value.name}": self._is_null_in(stream, value.name)
                for side, stream in sides
                for value in (column.value for column in side.columns)
                if isinstance(value, ColumnReference)
            }
            return [_name_column(name) for name in new if not is_null.get(name)]
        if get_stored_rows(step) is not None:
            return []  # its columns are compared with its operation
        assert keyed is not None, "a state belongs to a keyed operation or to a join"
        operations = step.operations[: step.operations.index(keyed)]
        unknown = [_name_column(n) for n in new if not self._is_null_after(step, operations, n)]
        if isinstance(keyed, nodes.ChangelogConversion) and keyed.output == "counted":
            return [_name_column(name) for name in new]  # they are numbered as they are
        known_calls = {
            call.name.removeprefix("__")
            for call in _list_calls(keyed)
            if self._has_nothing_of(call, step, operations)
        }
        calls = ((t, call) for t, call in now.calls.items() if t not in was.calls)
        return unknown + [describe_call(t, call) for t, call in calls if t not in known_calls]

    def has_moved_values(self, name: str) -> bool:
        """Whether the sets of counted values of a step have other numbers than they had.

        Their states are named by the numbers.
        """
        keyed = get_keyed_operation(self.plan.part(name))
        sets = keyed.value_sets.values() if isinstance(keyed, nodes.Aggregate) else ()
        numbers = {
            call.name.removeprefix("__"): number
            for number, each in enumerate(sets)
            for call in each.calls
        }
        before = dict.fromkeys(numbers[t] for t in self._before[name].calls if t in numbers)
        return list(before) != sorted(before)

    def leave_out_copies(
        self, parts: PartDescriptions, before: PartDescriptions
    ) -> PartDescriptions:
        """Return the parts without the texts of columns that are added next to the others.

        If rows that may be removed have lost a column, another may have taken its name.
        """
        conversions = ((each.name, get_keyed_operation(each)) for each in self.plan)
        if any(
            isinstance(keyed, nodes.ChangelogConversion)
            and name in self._before
            and not {*keyed.columns.names} >= self._before[name].columns.keys()
            for name, keyed in conversions
        ):
            return parts
        return {
            name: self._leave_out_copies(name, part, before[name]) if name in before else part
            for name, part in parts.items()
        }

    def _leave_out_copies(
        self, name: str, now: PartDescription, was: PartDescription
    ) -> PartDescription:
        known = {*was.clauses_before, *was.clauses_after}
        copies = _list_added_copies(self.plan.part(name), self.plan) - known
        return replace(
            now,
            clauses_before=tuple(text for text in now.clauses_before if text not in copies),
            clauses_after=tuple(text for text in now.clauses_after if text not in copies),
        )

    def _is_null_in(self, stream: str, column: str) -> bool:
        """Whether a column is null in all rows of a stream that were added and may be removed."""
        step = self._producers[stream]
        kind = self.plan.streams[stream].kind
        if isinstance(kind, nodes.Append):
            return True  # its rows are never removed
        if not isinstance(kind, nodes.Retract) or not isinstance(step, nodes.Step):
            return False
        return self._is_null_after(step, step.operations, column)

    def _is_null_after(
        self, step: nodes.Step, operations: Sequence[nodes.Operation], column: str
    ) -> bool:
        """Whether a column is null in the earlier rows, after these first operations of a step."""
        was = self._before.get(step.name)
        for operation in reversed(operations):
            match operation:
                case nodes.ChangelogConversion():
                    return was is not None and column not in was.columns
                case nodes.Join():
                    return was is not None and self._is_null_in_join(step, operation, was, column)
                case nodes.Project(columns=columns):
                    values = (each.value for each in columns if each.name == column)
                    value = next(values, None)
                    if not isinstance(value, ColumnReference):
                        return False
                    column = value.name
                case nodes.Explode() if column in {f.name for f in operation.added_columns}:
                    return False
                case (
                    nodes.Explode()
                    | nodes.Filter()
                    | nodes.Route()
                    | nodes.RowTime()
                    | nodes.WeightConversion()
                ):
                    pass
                case _:
                    return False
        return all(self._is_null_in(stream, column) for stream in get_input_streams(step))

    def _is_null_in_join(
        self, step: nodes.Step, join: nodes.Join, was: Fingerprint, column: str
    ) -> bool:
        """Whether a column of a join's output is new in its state, and null in its input."""
        for side, stream in zip((join.left, join.right), get_input_streams(step), strict=True):
            value = next((each.value for each in side.columns if each.name == column), None)
            if isinstance(value, ColumnReference):
                is_new = f"{side.name}.{value.name}" not in was.columns
                return is_new and self._is_null_in(stream, value.name)
        return False

    def _has_nothing_of(
        self, call: AggregateCall, step: nodes.Step, operations: Sequence[nodes.Operation]
    ) -> bool:
        """Whether the earlier rows have contributed nothing to the state of a call.

        Their values are null, and the state of nulls is that of no rows.
        """
        read = {
            node.name
            for each in call.all_inputs
            for node in walk(each.typed)
            if isinstance(node, ColumnReference)
        }
        if not read or call.needs_order or not call.accumulator.is_subtractable:
            return False
        is_null = all(self._is_null_after(step, operations, name) for name in read)
        return is_null and _ignores_nulls(call)


def _list_added_copies(step: nodes.PlanPart, plan: nodes.Plan) -> set[str]:
    """Return the texts of columns that projections of a step copy without changing another one."""
    if not isinstance(step, nodes.Step):
        return set()
    streams = plan.streams
    names = {name for stream in step.inputs for name in streams[stream].schema.names}
    copies = set[str]()
    for operation in step.operations:
        match operation:
            case nodes.Join():
                names = {c.name for side in (operation.left, operation.right) for c in side.columns}
            case nodes.Explode():
                names |= {field.name for field in operation.added_columns}
            case nodes.Project(columns=columns):
                copies.update(_list_copies(columns, names))
                names = {column.name for column in columns}
    return copies


def _list_copies(columns: Sequence[nodes.ComputedColumn], names: set[str]) -> Iterator[str]:
    """Yield the texts of columns that repeat one of these, under its name or under a new one."""
    for column in columns:
        if isinstance(column.value, ColumnReference):
            is_same = column.value.name == column.name
            if is_same or column.name not in names:
                yield f"{quote_name(column.name)} = {column_text(column)}"


def _name_column(name: str) -> str:
    return f"column {quote_name(name)}"


def _list_calls(keyed: nodes.KeyedOperation) -> Iterator[AggregateCall]:
    if isinstance(keyed, nodes.Aggregate):
        yield from (call for column in keyed.columns for call in column.expression.calls)


def _ignores_nulls(call: AggregateCall) -> bool:
    """Whether a row of nulls leaves the state of a call as it is without rows."""
    import polars as pl

    from headrace.core.aggregates import compute_partial_states
    from headrace.core.types.data_types import to_polars

    types = {
        node.name: to_polars(node.type)
        for each in call.all_inputs
        for node in walk(each.typed)
        if isinstance(node, ColumnReference)
    }
    nothing, null = (
        compute_partial_states(pl.DataFrame(rows, types, orient="row"), (), (call,), ())
        for rows in ([], [(None,) * len(types)])
    )
    return nothing.equals(null)
