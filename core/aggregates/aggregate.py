"""An aggregate of the table: like a function, but each overload builds an accumulator.

    aggregate(
        "max", "The greatest value; NULL when there is none.",
        overload("max(value: C) -> C", min_max.build_max),
        example=("max(n)", "2"),
    )

`distinct` builds the accumulator over the set of values; without it `distinct` is refused, with
`distinct_hint` as the hint. `spark` is given where Spark must run another text than the one
written, or none (`AggregateCall.spark`); `spark_distinct` the same for `distinct`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from headrace.core.aggregates.accumulator import Accumulator, BuildAccumulator
from headrace.core.expressions.function import TypedCall, choose_signature
from headrace.core.expressions.signature import (
    BoundArguments,
    Signature,
    SortDirection,
    parse_signature,
)
from headrace.core.expressions.typed import AS_WRITTEN, ExpressionError, Span, TypedExpression
from headrace.core.types.data_types import Type
from headrace.core.types.lazy_dataclass import dataclass

PREPARATION = "prepared "
"""The begin of the names of functions that aggregates apply to their arguments."""

Ordering: TypeAlias = Literal["", "rows", "values"]
SparkForm: TypeAlias = str | Callable[[BoundArguments], str]


@dataclass(frozen=True, slots=True)
class AggregateOverload:
    """One signature of an aggregate and its accumulator."""

    signature: Signature
    build: BuildAccumulator
    build_distinct: BuildAccumulator | None
    result_type: Callable[[BoundArguments], Type] | None
    check: Callable[[BoundArguments], None] | None
    spark: SparkForm
    spark_distinct: SparkForm | None = None
    prepare: Callable[[BoundArguments], BoundArguments] | None = None

    def spark_form(self, bound: BoundArguments, *, is_distinct: bool) -> str:
        """Return the text that Spark runs."""
        form = self.spark if self.spark_distinct is None or not is_distinct else self.spark_distinct
        return form(bound) if callable(form) else form


def overload(
    signature: str,
    build: BuildAccumulator,
    *,
    distinct: BuildAccumulator | None = None,
    returns: Callable[[BoundArguments], Type] | None = None,
    check: Callable[[BoundArguments], None] | None = None,
    spark: SparkForm = AS_WRITTEN,
    spark_distinct: SparkForm | None = None,
    prepare: Callable[[BoundArguments], BoundArguments] | None = None,
) -> AggregateOverload:
    """Define an overload; `returns` computes a result type that a signature cannot express.

    `prepare` returns other arguments, which are computed for all rows before they are grouped;
    their functions are named by PREPARATION.
    """
    parsed = parse_signature(signature)
    return AggregateOverload(
        parsed, build, distinct, returns, check, spark, spark_distinct, prepare
    )


@dataclass(frozen=True, slots=True)
class ResolvedAggregate:
    """A resolved call: bound arguments, result type, accumulator, and Spark form."""

    bound: BoundArguments
    type: Type
    is_nullable: bool
    accumulator: Accumulator
    spark: str


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """An aggregate of the table.

    `nullable`: whether the result of a group without values is NULL. `bind` chooses the overload of
    a call, and binds its arguments, where the signatures cannot. `ordering`: whether
    `within group (order by ...)` names the values themselves, or only the order of the rows.
    """

    name: str
    family: str
    doc: str
    overloads: tuple[AggregateOverload, ...]
    examples: tuple[tuple[str, str], ...]
    aliases: tuple[str, ...]
    is_nullable: bool
    distinct_hint: str
    bind_call: Callable[[TypedCall], tuple[int, BoundArguments]] | None
    ordering: Ordering

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures as users read them."""
        return tuple(overload.signature.text for overload in self.overloads)

    def resolve(
        self,
        call: TypedCall,
        distinct: Span | None = None,
        order: tuple[tuple[TypedExpression, SortDirection], ...] = (),
    ) -> ResolvedAggregate:
        """Bind the call to an overload, or raise an ExpressionError; `distinct` is the span of the
        word, `order` has the items of `within group`."""
        chosen, bound = self._bind(call, order)
        if chosen.check:
            chosen.check(bound)
        build = chosen.build
        if distinct:
            if chosen.build_distinct is None:
                message = f"distinct is not allowed in {call.name}"
                raise ExpressionError(message, distinct, self.distinct_hint)
            build = chosen.build_distinct
        type = chosen.result_type(bound) if chosen.result_type else bound.result
        spark = chosen.spark_form(bound, is_distinct=distinct is not None)
        accumulator = build(bound)
        prepared = chosen.prepare(bound) if chosen.prepare else bound
        return ResolvedAggregate(prepared, type, self.is_nullable, accumulator, spark)

    def _bind(
        self, call: TypedCall, order: tuple[tuple[TypedExpression, SortDirection], ...]
    ) -> tuple[AggregateOverload, BoundArguments]:
        """Choose the overload of a call, and bind its arguments and those of its order."""
        if self.bind_call and not order:
            index, bound = self.bind_call(call)
            return self.overloads[index], bound
        if order and not self.ordering:
            message = f"within group is not allowed in {call.name}"
            raise ExpressionError(message, call.span, "only values of a list have an order")
        keys, directions = tuple(key for key, _ in order), tuple(each for _, each in order)
        takes_keys = self.ordering == "values"
        wanted = takes_keys and bool(order)
        overloads = [each for each in self.overloads if each.signature.is_ordered == wanted]
        if not overloads:
            message = f"{call.name} wants within group (order by ...)"
            hint = f"its signature is {self.signatures[0]}"
            raise ExpressionError(message, call.span, hint)
        if takes_keys:
            call = replace(call, arguments=(*call.arguments, *keys))
        index, bound = choose_signature(call, [each.signature for each in overloads])
        arguments = bound.arguments if takes_keys else (*bound.arguments, *keys)
        return overloads[index], replace(bound, arguments=arguments, directions=directions)


def aggregate(
    name: str,
    doc: str,
    *overloads: AggregateOverload,
    example: tuple[str, str],
    more: tuple[tuple[str, str], ...] = (),
    aliases: tuple[str, ...] = (),
    nullable: bool = True,
    distinct_hint: str = "",
    bind: Callable[[TypedCall], tuple[int, BoundArguments]] | None = None,
    ordering: Ordering = "",
) -> AggregateFunction:
    """Define an aggregate; an example is an expression over EXAMPLE_ROWS, and its result."""
    examples = (example, *more)
    family = "aggregates"
    return AggregateFunction(
        name, family, doc, overloads, examples, aliases, nullable, distinct_hint, bind, ordering
    )
