"""Calls of aggregates over one input, ready to run, and expressions made of such calls.

The steps of a group by, each a list of named Polars expressions; `group_by` runs them:

    frame.with_columns(prepare)        arguments that are more than a column
    .group_by(keys).agg(partial)       one partial state a group
    .group_by(keys).agg(merge)         over concatenated partial states, any number of times
    .with_columns(finish)              the result column of the call, which the expression reads
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING

from headrace.core.aggregates.accumulator import Accumulator, AccumulatorInput, replace_order_key
from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.functions.logic import use_where
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    ColumnReference,
    TypedExpression,
    find_columns,
    is_fallible,
)
from headrace.core.types.data_types import Type
from headrace.core.types.elements import ORDER
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class AggregateInput:
    """An argument or a filter's condition, as a column of the input or computed by `prepare`."""

    name: str
    typed: TypedExpression

    @property
    def is_computed(self) -> bool:
        """Whether the input is more than a column."""
        return not isinstance(self.typed, ColumnReference)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One call; `name` is the column of its result, and the prefix of those of its state.

    `spark` is the Spark form: `AS_WRITTEN`, or a text in which `{0}`, `{1}` are the
    arguments as written, and `{distinct}` and `{filter}` those words where they were written.
    """

    name: str
    type: Type
    nullable: bool
    inputs: tuple[AggregateInput, ...]
    condition: AggregateInput | None
    accumulator: Accumulator
    spark: str = field(default=AS_WRITTEN, compare=False)

    @property
    def needs_order(self) -> bool:
        """Whether the rows must have the column `__order`."""
        return self.accumulator.needs_order

    @property
    def input_columns(self) -> frozenset[str]:
        """The input columns that the call reads."""
        return frozenset().union(*(find_columns(each.typed) for each in self.all_inputs))

    @property
    def all_inputs(self) -> tuple[AggregateInput, ...]:
        """The arguments, and the condition of the filter."""
        return (*self.inputs, self.condition) if self.condition else self.inputs

    @property
    def computed_inputs(self) -> dict[str, TypedExpression]:
        """The inputs that are more than a column; growing ones only where the filter is true."""
        found = {each.name: each.typed for each in self.all_inputs if each.is_computed}
        if self.condition is not None:
            where = self.condition.typed
            growing = (each for each in self.inputs if is_fallible(each.typed))
            found |= {each.name: use_where(where, each.typed) for each in growing}
        return found

    def state_types(self, order: Type) -> dict[str, Type]:
        """Return the columns of a partial state, for this type of the order key."""
        return {
            f"{self.name}.{part}": replace_order_key(type, order)
            for part, type in self.accumulator.state
        }

    def prepare(self) -> dict[str, pl.Expr]:
        """Return the expressions that are computed for every row beforehand."""
        return {name: to_expr(typed) for name, typed in self.computed_inputs.items()}

    def partial(self) -> list[pl.Expr]:
        """Return the state of the rows of a group."""
        return self._name_columns(self.accumulator.partial(self._accumulator_input()))

    def merge(self) -> list[pl.Expr]:
        """Return the state of the states of a group."""
        return self._name_columns(self.accumulator.merge(*self._state_columns()))

    def finish(self) -> pl.Expr:
        """Return the result of a state."""
        return self.accumulator.finish(*self._state_columns()).alias(self.name)

    def _accumulator_input(self) -> AccumulatorInput:
        import polars as pl

        values = tuple(pl.col(each.name) for each in self.inputs)
        if self.condition is None:
            return AccumulatorInput(values, pl.col(ORDER), pl.len())
        passes = pl.col(self.condition.name)
        filtered = tuple(pl.when(passes).then(value) for value in values)
        return AccumulatorInput(filtered, pl.when(passes).then(pl.col(ORDER)), passes.sum())

    def _state_columns(self) -> list[pl.Expr]:
        import polars as pl

        return [pl.col(f"{self.name}.{part}") for part, _ in self.accumulator.state]

    def _name_columns(self, parts: Iterable[pl.Expr]) -> list[pl.Expr]:
        names = (f"{self.name}.{part}" for part, _ in self.accumulator.state)
        return [part.alias(name) for name, part in zip(names, parts, strict=True)]


@dataclass(frozen=True, slots=True)
class AggregateExpression:
    """An expression over groups: `finish` reads the columns of its calls and of the keys."""

    calls: tuple[AggregateCall, ...]
    finish: TypedExpression

    @property
    def type(self) -> Type:
        """The type of the result."""
        return self.finish.type

    @property
    def needs_order(self) -> bool:
        """Whether the rows must have the column `__order`."""
        return any(call.needs_order for call in self.calls)

    @property
    def input_columns(self) -> frozenset[str]:
        """The input columns that the calls read."""
        return frozenset().union(*(call.input_columns for call in self.calls))


def deduplicate_calls(expressions: Iterable[AggregateExpression]) -> tuple[AggregateCall, ...]:
    """Return the calls of several expressions, each once."""
    calls = (call for expression in expressions for call in expression.calls)
    return tuple({call.name: call for call in calls}.values())
