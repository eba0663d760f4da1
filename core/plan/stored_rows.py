"""Estimates of the rows that steps over changes store, for `explain`.

Numbers, times and the like have a fixed width. For texts, and for arrays and maps, a length is
assumed and said. What hash tables, indexes and files take comes on top.

Tests: tests/core/plan/test_stored_rows.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from headrace.core.plan.layout import get_keyed_operation, get_two_input_operation
from headrace.core.plan.nodes import (
    Aggregate,
    ChangelogConversion,
    ChangeOrder,
    ComputedColumn,
    Dedup,
    Join,
    JoinSide,
    KeyedOperation,
    Plan,
    PlanPart,
    Step,
    Top,
)
from headrace.core.plan.nodes.matching import ChangelogMatch, TableMatch
from headrace.core.plan.states import get_read_columns, get_stored_columns, list_value_columns
from headrace.core.types.data_types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.value_sizes import count_bytes, has_lists, has_texts

TEXT_BYTES, LIST_BYTES = 20, 100
"""The assumed bytes of a text, and of an array or map."""

_ROW_ID = ("row id", STRING)
"""The key of the upserts by which a group stores its rows, encoded as a text."""


@dataclass(frozen=True, slots=True)
class StoredRowSize:
    """The estimated size of each row of a state."""

    columns: tuple[tuple[str, int], ...]
    """The stored columns, with the bytes of a value."""
    assumptions: tuple[str, ...]
    """The lengths that are assumed, in words."""
    is_counted: bool
    """Whether equal rows are counted, because a removal may arrive before its row."""
    unit: Literal["row", "value"] = "row"
    """The things that are stored and counted: rows, or their different values."""

    @property
    def bytes(self) -> int:
        """The bytes of a row."""
        return sum(size for _, size in self.columns)

    def describe(self) -> Iterator[str]:
        """Yield the size in words, and why rows are counted."""
        columns = ", ".join(f"{name} {size}" for name, size in self.columns)
        assumed = f" ({', '.join(self.assumptions)})" if self.assumptions else ""
        yield f"each {self.unit}: about {self.bytes:,} bytes{assumed}: {columns}"
        if self.is_counted:
            reason = "the changes of a key may arrive through several subtasks"
            yield f"{self.unit}s are counted: {reason}"


def measure_stored_rows(plan: Plan, part: PlanPart) -> dict[str, StoredRowSize]:
    """Return the estimated sizes of the rows that a step over changes stores, by state."""
    join, keyed = get_two_input_operation(part), get_keyed_operation(part)
    if join is not None:
        return dict(_measure_sides(join))
    if keyed is None:
        return {}
    assert isinstance(part, Step), "only steps have operations"
    return dict(_measure_keyed(plan, part, keyed))


def _measure_sides(join: Join) -> Iterator[tuple[str, StoredRowSize]]:
    match join.matching:
        case TableMatch():
            for name, side in (("left", join.left), ("right", join.right)):
                columns = [*_list_key(side.key), *_list_columns(side)]
                yield name, _measure_columns(columns, is_counted=True)
        case ChangelogMatch():
            columns = [*_list_key(join.left.key), *_list_columns(join.left)]
            yield "keys", _measure_columns([*columns, *_list_columns(join.right)])


def _measure_keyed(
    plan: Plan, step: Step, keyed: KeyedOperation
) -> Iterator[tuple[str, StoredRowSize]]:
    key = list(_list_key(keyed.key))
    match keyed:
        case ChangelogConversion(output="counted"):
            row = [(field.name, field.type) for field in keyed.columns]
            yield "rows", _measure_columns(row, is_counted=True)
        case ChangelogConversion():
            row = [(field.name, field.type) for field in keyed.columns]
            time = [("event time", TIMESTAMP)] if keyed.has_event_time else []
            counted = keyed.output == "upsert"
            yield "keys", _measure_columns([*key, *row, *time], is_counted=counted)
        case Dedup(changes=ChangeOrder(sequence=sequence)) if keyed.remembers_changes:
            of_sequence = [("sequence", sequence.value.type)] if sequence else []
            place = [("place", BIGINT), ("deleted", BOOLEAN)]
            yield "keys", _measure_columns([*key, *of_sequence, *place])
        case Aggregate(window=None) if keyed.stores_rows:
            yield "keys", _measure_columns([*key, *_list_emitted(keyed)])
            read = [*get_read_columns(keyed).items()]
            yield "rows", _measure_columns([*key, _ROW_ID, *read])
        case Aggregate(window=None) if keyed.counts_values:
            yield "keys", _measure_columns([*key, *_list_emitted(keyed)])
            for name, values in keyed.value_sets.items():
                columns = list_value_columns(values)
                yield name, _measure_columns(columns, is_counted=True, unit="value")
        case Aggregate(window=None, reads_retractions=True):
            yield "keys", _measure_columns(key)
        case Top(window=None) if keyed.stores_rows:
            row = [(f.name, f.type) for f in get_stored_columns(step, keyed, plan)]
            if keyed.stores_pages:
                yield "ranking", _measure_columns([*key, *row], is_counted=True)
            else:
                yield "rows", _measure_columns([*key, _ROW_ID, *row])


def _list_emitted(aggregate: Aggregate) -> Iterator[tuple[str, Type]]:
    return ((column.name, column.expression.type) for column in aggregate.columns)


def _list_key(key: Iterable[ComputedColumn]) -> Iterator[tuple[str, Type]]:
    return ((f"key {column.name}", column.value.type) for column in key)


def _list_columns(side: JoinSide) -> Iterator[tuple[str, Type]]:
    return ((column.name, column.value.type) for column in side.columns)


def _measure_columns(
    columns: Iterable[tuple[str, Type]],
    *,
    is_counted: bool = False,
    unit: Literal["row", "value"] = "row",
) -> StoredRowSize:
    typed = [*columns, *([("count", BIGINT)] if is_counted else [])]
    found = (
        (has_texts, f"{TEXT_BYTES} for a text"),
        (has_lists, f"{LIST_BYTES} for an array or map"),
    )
    return StoredRowSize(
        tuple((name, count_bytes(type, TEXT_BYTES, LIST_BYTES)) for name, type in typed),
        tuple(words for has, words in found if any(has(type) for _, type in typed)),
        is_counted,
        unit,
    )
