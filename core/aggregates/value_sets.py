"""The sets of values from which aggregates over changes are computed: values with counts.

Calls of the same arguments, of rows that pass the same filter, share a set. A set is stored in
pages, so that a change costs what its page costs. A call is of one of three kinds:

    PAGES   computed from partial states of the pages, which are merged
    SHARES  computed from the values at some shares of all, and the number of values in each page
    WHOLE   computed from all values of a group: its result, or its partial state, has them all

Tests: tests/core/operators/changelog/test_counting_aggregate.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

from headrace.core.aggregates.calls import AggregateCall, AggregateInput
from headrace.core.expressions.typed import NOWHERE, ColumnReference
from headrace.core.types.data_types import Type
from headrace.core.types.elements import ORDER
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.row_order import ORDER_TYPE

MAX_PAGE_ENTRIES = 16
"""The most entries of a partial state that is stored of each page."""


class CallKind(Enum):
    """The source of a call's result: states of pages, values at some shares, or all values."""

    PAGES = "pages"
    SHARES = "shares"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True)
class ValueSet:
    """The values that some calls read, of the rows that pass a filter."""

    inputs: tuple[AggregateInput, ...]
    condition: AggregateInput | None
    is_ordered: bool
    """Whether a value has the position of its row."""
    calls: tuple[AggregateCall, ...]
    """The calls, as they are computed from its columns: without their filter."""

    @property
    def columns(self) -> dict[str, Type]:
        """The columns of a value, with their types."""
        place = {ORDER: ORDER_TYPE} if self.is_ordered else {}
        return {**{each.name: each.typed.type for each in self.inputs}, **place}

    def select_calls(self, kind: CallKind) -> tuple[AggregateCall, ...]:
        """Return the calls of a kind."""
        return tuple(call for call in self.calls if classify_call(call) == kind)


def name_values_state(number: int) -> str:
    """Return the name of the state of a set, by its number in the step.

    >>> name_values_state(0), name_values_state(1)
    ('values', 'values_2')
    """
    return f"values_{number + 1}" if number else "values"


def classify_call(call: AggregateCall) -> CallKind:
    """Return the source of a call's result."""
    if call.accumulator.shares:
        return CallKind.SHARES
    entries = call.accumulator.entries
    is_small = entries is None or (isinstance(entries, int) and entries <= MAX_PAGE_ENTRIES)
    return CallKind.PAGES if is_small else CallKind.WHOLE


def list_value_sets(calls: Iterable[AggregateCall]) -> tuple[ValueSet, ...]:
    """Return the sets of values of the calls whose states cannot be subtracted."""
    sets: dict[object, ValueSet] = {}
    for call in calls:
        if call.accumulator.is_subtractable:
            continue
        condition = call.condition and call.condition.name
        identity = tuple(each.name for each in call.inputs), condition, call.needs_order
        known = sets.get(identity) or ValueSet(call.inputs, call.condition, call.needs_order, ())
        sets[identity] = replace(known, calls=(*known.calls, _read_columns(call)))
    return tuple(sets.values())


def _read_columns(call: AggregateCall) -> AggregateCall:
    """Return the call over computed columns, of values that are each in one page."""
    inputs = tuple(
        AggregateInput(
            each.name, ColumnReference(each.typed.type, each.typed.nullable, NOWHERE, each.name)
        )
        for each in call.inputs
    )
    accumulator = call.accumulator
    if accumulator.of_parts is not None:
        accumulator = replace(accumulator.of_parts, is_idempotent=True)
    return replace(call, inputs=inputs, condition=None, accumulator=accumulator)
