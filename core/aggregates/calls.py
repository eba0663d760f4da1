"""A call of an aggregate over one input, ready to run, and an expression made of such calls.

The steps of a group by, each a list of named Polars expressions; `frames` runs them:

    frame.with_columns(prepare)        arguments that are more than a column
    .group_by(keys).agg(partial)       one partial state a group
    .group_by(keys).agg(merge)         over partial states put together, as often as wanted
    .with_columns(finish)              the call's own column, which the expression goes on with
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.aggregates.triple import Rows, Triple, with_order
from headrace.core.elements import ORDER
from headrace.core.expressions.typed import AS_WRITTEN, Column, Typed, columns, to_expr
from headrace.core.types import Type

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Input:
    """An argument, or a filter's condition, as a column: of the input, or computed by `prepare`."""

    name: str
    typed: Typed

    @property
    def computed(self) -> bool:
        """Whether it is more than a column of the input."""
        return not isinstance(self.typed, Column)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call. `name` is the column of its result, and begins those of its state.

    `spark` is what Spark runs: `AS_WRITTEN`, `OURS`, or a text in which `{0}`, `{1}` stand for the
    arguments as they were written, `{distinct}` and `{filter}` for those words where they were.
    """

    name: str
    type: Type
    nullable: bool
    inputs: tuple[Input, ...]
    condition: Input | None
    triple: Triple
    spark: str = field(default=AS_WRITTEN, compare=False)

    @property
    def needs_order(self) -> bool:
        """Whether the rows must have the column `__order`."""
        return self.triple.needs_order

    @property
    def columns(self) -> frozenset[str]:
        """The input's columns that it reads."""
        return frozenset().union(*(columns(each.typed) for each in self.read))

    @property
    def read(self) -> tuple[Input, ...]:
        """Its arguments, and the condition of its filter."""
        return (*self.inputs, self.condition) if self.condition else self.inputs

    def state(self, order: Type) -> dict[str, Type]:
        """The columns of a partial state, where the order key has that type."""
        return {f"{self.name}.{part}": with_order(type, order) for part, type in self.triple.state}

    def prepare(self) -> dict[str, pl.Expr]:
        """What is to be computed for every row beforehand."""
        return {each.name: to_expr(each.typed) for each in self.read if each.computed}

    def partial(self) -> list[pl.Expr]:
        """The state of the rows of a group."""
        return self._named(self.triple.partial(self._rows()))

    def merge(self) -> list[pl.Expr]:
        """The state of the states of a group."""
        return self._named(self.triple.merge(*self._state()))

    def finish(self) -> pl.Expr:
        """The result of a state."""
        return self.triple.finish(*self._state()).alias(self.name)

    def _rows(self) -> Rows:
        import polars as pl

        values = tuple(pl.col(each.name) for each in self.inputs)
        if self.condition is None:
            return Rows(values, pl.col(ORDER), pl.len())
        passes = pl.col(self.condition.name)
        kept = tuple(pl.when(passes).then(value) for value in values)
        return Rows(kept, pl.when(passes).then(pl.col(ORDER)), passes.sum())

    def _state(self) -> list[pl.Expr]:
        import polars as pl

        return [pl.col(f"{self.name}.{part}") for part, _ in self.triple.state]

    def _named(self, parts: Iterable[pl.Expr]) -> list[pl.Expr]:
        names = (f"{self.name}.{part}" for part, _ in self.triple.state)
        return [part.alias(name) for name, part in zip(names, parts, strict=True)]


@dataclass(frozen=True, slots=True)
class AggregateExpression:
    """An expression over groups: `finish` reads the columns of its calls and of the keys."""

    calls: tuple[AggregateCall, ...]
    finish: Typed

    @property
    def type(self) -> Type:
        """The type of its result."""
        return self.finish.type

    @property
    def needs_order(self) -> bool:
        """Whether the rows must have the column `__order`."""
        return any(call.needs_order for call in self.calls)

    @property
    def columns(self) -> frozenset[str]:
        """The input's columns that its calls read."""
        return frozenset().union(*(call.columns for call in self.calls))


def distinct_calls(expressions: Iterable[AggregateExpression]) -> tuple[AggregateCall, ...]:
    """The calls of several expressions, each once."""
    calls = (call for expression in expressions for call in expression.calls)
    return tuple({call.name: call for call in calls}.values())
