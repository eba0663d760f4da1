"""An aggregate as three steps of column expressions, so that its work can be cut and put together.

    partial   over rows, inside `group_by(...).agg(...)`: the columns of a partial state
    merge     over partial states of the same group, inside `group_by(...).agg(...)`: those columns
    finish    over merged columns, one row a group: the result

Merging is associative and commutative: rows may be cut into batches and partial states merged in
any order and grouping, and the result is the same (sums of floats: but for rounding). State has
plain column types, so that it can be written as Arrow.

An aggregate whose result depends on the order of rows keeps the order key beside its values: the
column `__order`, which the plan provides where `needs_order` is set. It may have any type that
Polars sorts (a whole number is fastest), must differ from row to row and never be null.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.types import Array, Atom, Field, Struct, Type

if TYPE_CHECKING:
    import polars as pl

ORDER_KEY = Atom("order key")
"""Stands for the type of the order key in the types of a state."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a partial reads: arguments and order key, all NULL in a row that the filter drops.

    NULL, because Polars 2.1 reads beyond its memory where a `filter` inside of `agg` leaves a group
    empty and the rest is sorted: no aggregate here may sort what it has filtered.
    """

    values: tuple[pl.Expr, ...]
    order: pl.Expr
    count: pl.Expr

    @property
    def value(self) -> pl.Expr:
        """The first argument."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Triple:
    """The three steps. `state` names and types the columns that partial and merge give."""

    state: tuple[tuple[str, Type], ...]
    partial: Callable[[Rows], tuple[pl.Expr, ...]]
    merge: Callable[..., tuple[pl.Expr, ...]]
    finish: Callable[..., pl.Expr]
    needs_order: bool = False


def with_order(type: Type, order: Type) -> Type:
    """The type of a state column, once the type of the order key is known."""
    match type:
        case Array(element):
            return Array(with_order(element, order))
        case Struct(fields):
            return Struct(
                tuple(Field(f.name, with_order(f.type, order), f.nullable) for f in fields)
            )
    return order if type == ORDER_KEY else type


def flatten(lists: pl.Expr) -> pl.Expr:
    """The elements of the lists of a group, as its rows."""
    return lists.explode(empty_as_null=False, keep_nulls=False)
