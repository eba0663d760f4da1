"""An aggregate of the table: like a function, but each overload builds an accumulator.

    aggregate(
        "max", "The greatest value; NULL when there is none.",
        overload("max(value: C) -> C", min_max.build_max),
        example=("max(n)", "2"),
    )

`distinct` builds the accumulator over the set of values, where it differs from the plain one;
without it `distinct` is refused, with `instead` as the hint. `spark` is given where Spark must run
another text than the one written, or none (`AggregateCall.spark`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from headrace.core.aggregates.triple import Triple
from headrace.core.expressions.function import Call, choose
from headrace.core.expressions.signature import Bound, Signature, parse_signature
from headrace.core.expressions.typed import AS_WRITTEN, ExpressionError, Span
from headrace.core.types import Type

Build: TypeAlias = Callable[[Bound], Triple]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of an aggregate and its accumulator."""

    signature: Signature
    build: Build
    distinct: Build | None
    returns: Callable[[Bound], Type] | None
    check: Callable[[Bound], None] | None
    spark: str | Callable[[Bound], str]


def overload(
    signature: str,
    build: Build,
    *,
    distinct: Build | None = None,
    returns: Callable[[Bound], Type] | None = None,
    check: Callable[[Bound], None] | None = None,
    spark: str | Callable[[Bound], str] = AS_WRITTEN,
) -> Overload:
    """Define an overload; `returns` computes a result type that a signature cannot express."""
    return Overload(parse_signature(signature), build, distinct, returns, check, spark)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A resolved call: bound arguments, result type, accumulator, and Spark form."""

    bound: Bound
    type: Type
    nullable: bool
    triple: Triple
    spark: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate of the table.

    `nullable`: whether the result of a group without values is NULL. `bind` chooses the overload of
    a call, and binds its arguments, where the signatures cannot.
    """

    name: str
    family: str
    doc: str
    overloads: tuple[Overload, ...]
    examples: tuple[tuple[str, str], ...]
    aliases: tuple[str, ...]
    nullable: bool
    instead: str
    bind: Callable[[Call], tuple[int, Bound]] | None

    @property
    def signatures(self) -> tuple[str, ...]:
        """The signatures as users read them."""
        return tuple(signature.text for signature in self._signatures)

    @property
    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(overload.signature for overload in self.overloads)

    def resolve(self, call: Call, distinct: Span | None = None) -> Resolved:
        """Bind the call to an overload, or raise an ExpressionError; `distinct` is the span of the
        word."""
        index, bound = self.bind(call) if self.bind else choose(call, self._signatures)
        chosen = self.overloads[index]
        if chosen.check:
            chosen.check(bound)
        build = chosen.build
        if distinct:
            if chosen.distinct is None:
                message = f"distinct is not allowed in {call.name}"
                raise ExpressionError(message, distinct, self.instead)
            build = chosen.distinct
        type = chosen.returns(bound) if chosen.returns else bound.result
        spark = chosen.spark(bound) if callable(chosen.spark) else chosen.spark
        return Resolved(bound, type, self.nullable, build(bound), spark)


def aggregate(
    name: str,
    doc: str,
    *overloads: Overload,
    example: tuple[str, str],
    more: tuple[tuple[str, str], ...] = (),
    aliases: tuple[str, ...] = (),
    nullable: bool = True,
    instead: str = "",
    bind: Callable[[Call], tuple[int, Bound]] | None = None,
) -> Aggregate:
    """Define an aggregate; an example is an expression over EXAMPLE_ROWS, and its result."""
    examples = (example, *more)
    family = "aggregates"
    return Aggregate(name, family, doc, overloads, examples, aliases, nullable, instead, bind)
