"""The table row of an aggregate: like a function's, but each overload builds a triple.

    aggregate(
        "max", "The greatest value; NULL when there is none.",
        overload("max(value: C) -> C", extremes.greatest),
        example=("max(n)", "2"),
    )

`distinct` builds the triple over the set of values, where that is something else than the plain
one; without it `distinct` is refused, with `instead` as the hint. `spark` is said where Spark is to
run something else than what was written, or nothing (`AggregateCall.spark`).
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
    """One signature of an aggregate and the triple behind it."""

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
    """An overload of a row: `returns` computes the result type where a signature cannot say it."""
    return Overload(parse_signature(signature), build, distinct, returns, check, spark)


@dataclass(frozen=True, slots=True)
class Resolved:
    """A call as its row takes it: bound arguments, result type and triple, and Spark's form."""

    bound: Bound
    type: Type
    nullable: bool
    triple: Triple
    spark: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A row of the table.

    `nullable`: whether the result of a group without values is NULL. `bind` says which overload
    takes a call, and how, where the signatures cannot.
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
        """The signatures as people read them."""
        return tuple(signature.text for signature in self._signatures)

    @property
    def _signatures(self) -> tuple[Signature, ...]:
        return tuple(overload.signature for overload in self.overloads)

    def resolve(self, call: Call, distinct: Span | None = None) -> Resolved:
        """The call bound to an overload, or an ExpressionError; `distinct` is where it stands."""
        index, bound = self.bind(call) if self.bind else choose(call, self._signatures)
        chosen = self.overloads[index]
        if chosen.check:
            chosen.check(bound)
        build = chosen.build
        if distinct:
            if chosen.distinct is None:
                message = f"distinct has no place in {call.name}"
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
    """A row of the table; an example is an expression over EXAMPLE_ROWS, and what it gives."""
    examples = (example, *more)
    family = "aggregates"
    return Aggregate(name, family, doc, overloads, examples, aliases, nullable, instead, bind)
