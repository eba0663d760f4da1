"""A function of the table: its name, its overloads, its description, and its Polars form.

    function(
        "left", "strings", "The first characters of a text.",
        overload("left(text: string, count: int) -> string", lambda text, count: ...),
        example=("left('hello', 2)", "he"),
    )

`signature` explains the notation of an overload. Its form receives the compiled arguments in order,
constants as plain Python values; a constant that is NULL makes the result NULL without a call of
the form. What a signature cannot express has its own argument: `returns` computes the result type,
`build` makes the form from the bound arguments, `check` refuses what has no exact translation,
`spark` is given where Spark must run another text than the one written, or none (`Apply.spark`).
Functions with typing rules of their own (`case`, `named_struct`) give `resolve` instead of
overloads.
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
    """A call during typing: the function name as written, and the typed arguments."""

    name: str
    arguments: tuple[Typed, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature and its meaning.

    With `nulls` "strict" the result is null only where an argument is.
    """

    signature: Signature
    build: Callable[[Bound], Form]
    returns: Callable[[Bound], Type] | None
    check: Callable[[Bound], None] | None
    nulls: Nulls
    spark: str | Callable[[Bound], str]

    def apply(self, call: Call, bound: Bound) -> Typed:
        """Return the typed node of a call whose arguments this overload takes."""
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
    """Return the form over the per-row arguments alone, with the constants filled in."""
    indices = range(len(bound.arguments))
    constants = bound.constants

    def fill_in(*columns: pl.Expr) -> pl.Expr:
        rest = iter(columns)
        return form(*(constants[i] if i in constants else next(rest) for i in indices))

    return fill_in


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
    """Define an overload by `polars`, or by `build` if the form depends on types or constants."""
    if polars is not None:
        form = polars
        build = lambda bound: form  # noqa: E731
    assert build is not None, signature
    return Overload(parse_signature(signature), build, returns, check, nulls, spark)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the table; `spark` is used if the function has typing rules of its own."""

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
        """Return the typed node of a call, or raise an ExpressionError with the signature."""
        if self.resolve_own:
            typed = self.resolve_own(call)
            if self.spark and isinstance(typed, Apply):
                return replace(typed, spark=self.spark)
            return typed
        index, bound = choose(call, [candidate.signature for candidate in self.overloads])
        return self.overloads[index].apply(call, bound)


def choose(call: Call, signatures: Sequence[Signature]) -> tuple[int, Bound]:
    """Return the first signature that takes the arguments; signatures with their exact types come
    first."""
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
        return ExpressionError(message, call.span, f"write {forms}")
    argument = call.arguments[closest.index]
    wanted = " or ".join(dict.fromkeys(m.wanted for m in mismatches if m.index == closest.index))
    message = f"{call.name} wants {wanted}, got {argument.type}"
    return ExpressionError(message, argument.span, closest.hint or f"write {forms}")


def _stands(signature: Signature, types: set[Type]) -> bool:
    """Whether the signature takes exactly these types without a cast, so that it is tried first."""
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
    """Define a function; each example is an expression and its value, as Spark shows it."""
    texts = signatures or tuple(overload.signature.text for overload in overloads)
    return Function(name, family, doc, overloads, (example, *more), aliases, resolve, texts, spark)
