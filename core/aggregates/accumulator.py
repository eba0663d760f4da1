"""Accumulators: aggregates as three steps of column expressions, so that the work can be split.

    partial   over rows, inside `group_by(...).agg(...)`: the columns of a partial state
    merge     over partial states of the same group, inside `group_by(...).agg(...)`: those columns
    finish    over merged columns, one row a group: the result

Merging is associative and commutative: rows may be split into batches and partial states merged in
any order and grouping, and the result is the same (except for the rounding of sums of floats).
State has plain column types, so that it can be written as Arrow.

An aggregate whose result depends on the order of rows stores the order key with its values: the
column `__order`, which the plan provides where `needs_order` is set. It may have any type that
Polars sorts (an integer is fastest), must differ from row to row and never be null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.expressions.signature import BoundArguments
from headrace.core.types.data_types import Array, Atom, Field, Struct, Type
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

ORDER_KEY = Atom("order key")
"""The placeholder for the type of the order key in the types of a state."""


@dataclass(frozen=True, slots=True)
class AccumulatorInput:
    """The input of a partial: arguments and order key, all NULL in a row that the filter drops.

    They are NULL and not filtered, because Polars 2.1 reads beyond its memory where a `filter`
    inside of `agg` leaves a group empty and the rest is sorted: no aggregate here may sort what it
    has filtered.
    """

    values: tuple[pl.Expr, ...]
    order: pl.Expr
    count: pl.Expr

    @property
    def value(self) -> pl.Expr:
        """The first argument."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Accumulator:
    """The three steps; `state` has the names and types of the columns of partial and merge."""

    state: tuple[tuple[str, Type], ...]
    partial: Callable[[AccumulatorInput], tuple[pl.Expr, ...]]
    merge: Callable[..., tuple[pl.Expr, ...]]
    finish: Callable[..., pl.Expr]
    needs_order: bool = False
    is_subtractable: bool = False
    """Whether the state of rows is removed from a state by merging its negated columns."""
    is_idempotent: bool = False
    """Whether a value counts once, however often it is there."""
    of_parts: Accumulator | None = None
    """The accumulator with the same result where each value is there once, and equal values are
    never in different states. Its state is not a list."""
    shares: tuple[float, ...] = ()
    """Of a state that is a list of values with counts, in ascending order: the shares of all values
    below those that the result is computed from. The others may be replaced by any values that
    leave the counts as they are."""
    is_additive: bool = False
    """Whether states are merged by adding their columns, which are bigint or double."""
    entries: Literal["values", "distinct values"] | int | None = None
    """The entries of the list in its state: one for each value or distinct value, or at most this
    number; None if its state is not a list."""


BuildAccumulator: TypeAlias = Callable[[BoundArguments], Accumulator]
"""Builds the accumulator of a call from its bound arguments."""


def replace_order_key(type: Type, order: Type) -> Type:
    """Return the type of a state column for a known type of the order key."""
    match type:
        case Array(element):
            return Array(replace_order_key(element, order))
        case Struct(fields):
            return Struct(
                tuple(Field(f.name, replace_order_key(f.type, order), f.nullable) for f in fields)
            )
    return order if type == ORDER_KEY else type


def explode_group_lists(lists: pl.Expr) -> pl.Expr:
    """Return the elements of the lists of a group, as its rows."""
    return lists.explode(empty_as_null=False, keep_nulls=False)
