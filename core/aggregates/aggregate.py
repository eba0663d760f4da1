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
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.aggregates.accumulator import Accumulator, BuildAccumulator
from headrace.core.expressions.function import TypedCall, choose_signature
from headrace.core.expressions.signature import BoundArguments, Signature, parse_signature
from headrace.core.expressions.typed import AS_WRITTEN, ExpressionError, Span
from headrace.core.types.data_types import Type

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
) -> AggregateOverload:
    """Define an overload; `returns` computes a result type that a signature cannot express."""
    return AggregateOverload(
        parse_signature(signature), build, distinct, returns, check, spark, spark_distinct
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
    a call, and binds its arguments, where the signatures cannot.
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

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures as users read them."""
        return tuple(signature.text for signature in self._signatures)

    @property
    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(overload.signature for overload in self.overloads)

    def resolve(self, call: TypedCall, distinct: Span | None = None) -> ResolvedAggregate:
        """Bind the call to an overload, or raise an ExpressionError; `distinct` is the span of the
        word."""
        index, bound = (
            self.bind_call(call) if self.bind_call else choose_signature(call, self._signatures)
        )
        chosen = self.overloads[index]
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
        return ResolvedAggregate(bound, type, self.is_nullable, build(bound), spark)


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
) -> AggregateFunction:
    """Define an aggregate; an example is an expression over EXAMPLE_ROWS, and its result."""
    examples = (example, *more)
    family = "aggregates"
    return AggregateFunction(
        name, family, doc, overloads, examples, aliases, nullable, distinct_hint, bind
    )
