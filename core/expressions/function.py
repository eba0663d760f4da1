"""The table row of a function: its name, its overloads, what it means, how Polars says it.

    function(
        "left", "strings", "The first characters of a text.",
        overload("left(text: string, count: int) -> string", lambda text, count: ...),
        example=("left('hello', 2)", "he"),
    )

`signature` explains how an overload is written. Its form is handed the compiled arguments in order,
constant ones as plain Python values; a constant that is NULL makes the result NULL without the form
being asked. What a signature cannot say is said beside it: `returns` computes the result type,
`build` makes the form from what was bound, `check` refuses what has no exact translation, `spark`
is said where Spark is to run something else than what was written, or nothing (`Apply.spark`).
Functions whose typing is their own (`case`, `named_struct`) give `resolve` instead of overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.expressions.signature import (
    Bound,
    Mismatch,
    Signature,
    bind,
    legend,
    parse_signature,
)
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    Apply,
    Constant,
    ExpressionError,
    Form,
    Span,
    Typed,
    ours_within,
)
from headrace.core.types import Type

if TYPE_CHECKING:
    import polars as pl

Nulls: TypeAlias = Literal["some", "strict", "never"]


@dataclass(frozen=True, slots=True)
class Call:
    """A call as the typing sees it: the function's name as written, and the typed arguments."""

    name: str
    arguments: tuple[Typed, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature and its meaning. `nulls`: "strict" is null only where an argument is."""

    signature: Signature
    build: Callable[[Bound], Form]
    returns: Callable[[Bound], Type] | None
    check: Callable[[Bound], None] | None
    nulls: Nulls
    spark: str | Callable[[Bound], str]

    def apply(self, call: Call, bound: Bound) -> Typed:
        """The typed node of a call whose arguments this overload takes."""
        if self.check:
            self.check(bound)
        result = self.returns(bound) if self.returns else bound.result
        if None in bound.constants.values():
            return Constant(result, True, call.span, None)
        nullable = self.nulls == "some" or (
            self.nulls == "strict" and any(argument.nullable for argument in bound.arguments)
        )
        bound = Bound(bound.arguments, bound.constants, bound.letters, result)
        form = _with_constants(self.build(bound), bound) if bound.constants else self.build(bound)
        spark = self._spark(call, bound)
        return Apply(result, nullable, call.span, call.name, bound.columns, form, spark)

    def _spark(self, call: Call, bound: Bound) -> str:
        constant = ours_within(*(call.arguments[i] for i in bound.constants))
        return constant or (self.spark(bound) if callable(self.spark) else self.spark)


def _with_constants(form: Form, bound: Bound) -> Form:
    """The form over the per-row arguments alone, with the constants put in their places."""
    places = range(len(bound.arguments))
    constants = bound.constants

    def whole(*columns: pl.Expr) -> pl.Expr:
        rest = iter(columns)
        return form(*(constants[i] if i in constants else next(rest) for i in places))

    return whole


def overload(
    signature: str,
    polars: Form | None = None,
    *,
    build: Callable[[Bound], Form] | None = None,
    returns: Callable[[Bound], Type] | None = None,
    check: Callable[[Bound], None] | None = None,
    nulls: Nulls = "some",
    spark: str | Callable[[Bound], str] = AS_WRITTEN,
) -> Overload:
    """A row's overload: give `polars`, or `build` where the form depends on types or constants."""
    if polars is not None:
        form = polars
        build = lambda bound: form  # noqa: E731
    assert build is not None, signature
    return Overload(parse_signature(signature), build, returns, check, nulls, spark)


@dataclass(frozen=True, slots=True)
class Function:
    """A row of the table. `spark` is for a row of its own typing what it is for an overload."""

    name: str
    family: str
    doc: str
    overloads: tuple[Overload, ...]
    examples: tuple[tuple[str, str], ...]
    aliases: tuple[str, ...]
    resolve_own: Callable[[Call], Typed] | None
    signatures: tuple[str, ...]
    spark: str

    def resolve(self, call: Call) -> Typed:
        """The typed node of a call, or an ExpressionError that says what was wanted."""
        if self.resolve_own:
            typed = self.resolve_own(call)
            if self.spark and isinstance(typed, Apply):
                return replace(typed, spark=self.spark)
            return typed
        index, bound = choose(call, [candidate.signature for candidate in self.overloads])
        return self.overloads[index].apply(call, bound)


def choose(call: Call, signatures: Sequence[Signature]) -> tuple[int, Bound]:
    """The first signature that takes the arguments, one that has their very types before others."""
    exact = {argument.type for argument in call.arguments}
    mismatches = []
    ordered = sorted(range(len(signatures)), key=lambda i: not _stands(signatures[i], exact))
    for index in ordered:
        match bind(signatures[index], call.arguments):
            case Mismatch() as mismatch:
                mismatches.append(mismatch)
            case bound:
                return index, bound
    raise _refusal(call, signatures, mismatches)


def _refusal(
    call: Call, signatures: Sequence[Signature], mismatches: list[Mismatch]
) -> ExpressionError:
    forms = " or ".join(signature.text for signature in signatures) + legend(signatures)
    closest = max(mismatches, key=lambda m: -1 if m.index is None else m.index)
    if closest.index is None:
        came = len(call.arguments)
        counts = " or ".join(dict.fromkeys(m.wanted for m in mismatches))
        noun = "argument" if counts == "1" else "arguments"
        message = f"{call.name} takes {counts} {noun}, got {came}"
        return ExpressionError(message, call.span, f"it is {forms}")
    argument = call.arguments[closest.index]
    wanted = " or ".join(dict.fromkeys(m.wanted for m in mismatches if m.index == closest.index))
    message = f"{call.name} wants {wanted}, got {argument.type}"
    return ExpressionError(message, argument.span, closest.hint or f"it is {forms}")


def _stands(signature: Signature, types: set[Type]) -> bool:
    """Whether the signature takes just these types as they are, so that it is to be tried first."""
    return types <= {p.pattern for p in signature.parameters if isinstance(p.pattern, Type)}


def function(
    name: str,
    family: str,
    doc: str,
    *overloads: Overload,
    example: tuple[str, str],
    more: tuple[tuple[str, str], ...] = (),
    aliases: tuple[str, ...] = (),
    resolve: Callable[[Call], Typed] | None = None,
    signatures: tuple[str, ...] = (),
    spark: str = AS_WRITTEN,
) -> Function:
    """A row of the table; each example is an expression and the value it has, as Spark shows it."""
    texts = signatures or tuple(overload.signature.text for overload in overloads)
    return Function(name, family, doc, overloads, (example, *more), aliases, resolve, texts, spark)
