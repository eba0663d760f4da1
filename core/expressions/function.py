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
`spark` is given where Spark must run another text than the one written, or none
(`FunctionCall.spark`), `growth` where the result may be far larger than the arguments. Functions
with typing rules of their own (`case`, `named_struct`) give `resolve` instead of overloads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Literal, TypeAlias

from headrace.core.expressions.foreign_functions import find_foreign_hint
from headrace.core.expressions.signature import (
    BoundArguments,
    Signature,
    SignatureMismatch,
    bind_arguments,
    describe_type_variables,
    parse_signature,
)
from headrace.core.expressions.typed import (
    AS_WRITTEN,
    NO_SPARK_FORM,
    Constant,
    ExpressionError,
    FunctionCall,
    LambdaFunction,
    PolarsForm,
    Span,
    TypedExpression,
    ValueGrowth,
    spark_form_of_parts,
)
from headrace.core.types.data_types import BINARY, STRING, Struct, Type
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import polars as pl

NullPolicy: TypeAlias = Literal["some", "strict", "never"]
GrowthRule: TypeAlias = "Callable[[BoundArguments], PolarsForm | None]"
"""Returns the size in bytes of a result, of the compiled arguments; None if it is not growing."""


def with_growth(typed: FunctionCall, size: PolarsForm | None) -> FunctionCall:
    """Return the call as a growing one; Spark has no limit for its result.

    Without a size, the call itself checks the values that its lambda functions make.
    """
    return replace(typed, growth=ValueGrowth(size), spark=NO_SPARK_FORM)


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A call during typing: the function name as written, and the typed arguments."""

    name: str
    arguments: tuple[TypedExpression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class UntypedLambda(TypedExpression):
    """A lambda function as an argument, before the function called gives its parameters types.

    `apply` takes a value of the type of each parameter.
    """

    parameters: tuple[str, ...]
    apply: Callable[[Sequence[TypedExpression]], LambdaFunction]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature and its meaning.

    With `nulls` "strict" the result is null only where an argument is.
    """

    signature: Signature
    build: Callable[[BoundArguments], PolarsForm]
    result_type: Callable[[BoundArguments], Type] | None
    check: Callable[[BoundArguments], None] | None
    nulls: NullPolicy
    spark: str | Callable[[BoundArguments], str]
    growth: GrowthRule | None = None

    def apply(self, call: TypedCall, bound: BoundArguments) -> TypedExpression:
        """Return the typed node of a call whose arguments this overload takes."""
        if self.check:
            self.check(bound)
        result = self.result_type(bound) if self.result_type else bound.result
        if None in bound.constants.values():
            return Constant(result, True, call.span, None)
        nullable = self.nulls == "some" or (
            self.nulls == "strict" and any(argument.nullable for argument in bound.arguments)
        )
        bound = BoundArguments(bound.arguments, bound.constants, bound.type_arguments, result)
        form, size = self.build(bound), self.growth(bound) if self.growth else None
        if bound.constants:
            form, size = _fill_in_constants(form, bound), size and _fill_in_constants(size, bound)
        spark = self._spark_form(call, bound)
        typed = FunctionCall(
            result, nullable, call.span, call.name, bound.column_arguments, form, spark
        )
        return with_growth(typed, size) if size else typed

    def _spark_form(self, call: TypedCall, bound: BoundArguments) -> str:
        constant = spark_form_of_parts(*(call.arguments[i] for i in bound.constants))
        return constant or (self.spark(bound) if callable(self.spark) else self.spark)


def _fill_in_constants(form: PolarsForm, bound: BoundArguments) -> PolarsForm:
    """Return the form over the per-row arguments alone, with the constants filled in."""
    indices = range(len(bound.arguments))
    constants = bound.constants

    def fill_in(*columns: pl.Expr) -> pl.Expr:
        rest = iter(columns)
        return form(*(constants[i] if i in constants else next(rest) for i in indices))

    return fill_in


def overload(
    signature: str,
    polars: PolarsForm | None = None,
    *,
    build: Callable[[BoundArguments], PolarsForm] | None = None,
    returns: Callable[[BoundArguments], Type] | None = None,
    check: Callable[[BoundArguments], None] | None = None,
    nulls: NullPolicy = "some",
    spark: str | Callable[[BoundArguments], str] = AS_WRITTEN,
    growth: GrowthRule | None = None,
) -> Overload:
    """Define an overload by `polars`, or by `build` if the form depends on types or constants."""
    if polars is not None:
        form = polars
        build = lambda bound: form  # noqa: E731
    assert build is not None, signature
    return Overload(parse_signature(signature), build, returns, check, nulls, spark, growth)


@dataclass(frozen=True, slots=True)
class SqlFunction:
    """A function of the table; `spark` is used if the function has typing rules of its own."""

    name: str
    family: str
    doc: str
    overloads: tuple[Overload, ...]
    examples: tuple[tuple[str, str], ...]
    aliases: tuple[str, ...]
    resolve_own: Callable[[TypedCall], TypedExpression] | None
    signatures: tuple[str, ...]
    spark: str
    is_higher_order: bool = False
    """Whether it takes lambda functions, which are arguments of type `UntypedLambda`."""

    def resolve(self, call: TypedCall) -> TypedExpression:
        """Return the typed node of a call, or raise an ExpressionError with the signature."""
        if self.resolve_own:
            typed = self.resolve_own(call)
            if self.spark and isinstance(typed, FunctionCall):
                return replace(typed, spark=self.spark)
            return typed
        index, bound = choose_signature(call, [candidate.signature for candidate in self.overloads])
        return self.overloads[index].apply(call, bound)


MAX_PERMUTED_ARGUMENTS = 4


def choose_signature(
    call: TypedCall, signatures: Sequence[Signature]
) -> tuple[int, BoundArguments]:
    """Return the first signature that takes the arguments: with their exact types, then widened,
    then converted."""
    exact = {argument.type for argument in call.arguments}
    mismatches: list[SignatureMismatch] = []
    ordered = sorted(
        range(len(signatures)), key=lambda i: not _is_exact_match(signatures[i], exact)
    )
    for implicit in (False, True):
        mismatches = []
        for index in ordered:
            bound = bind_arguments(signatures[index], call.arguments, implicit=implicit)
            if isinstance(bound, BoundArguments) and (of_bytes := _find_bytes(call, bound)):
                bound = of_bytes
            if isinstance(bound, BoundArguments):
                return index, _hint_at_order(bound, call, signatures) if implicit else bound
            mismatches.append(bound)
    raise _mismatch_error(call, signatures, mismatches)


_WITHOUT_BYTES = frozenset(
    """
    from_csv from_json get_json_object json_array_length json_object_keys json_tuple listagg overlay
    parse_url soundex string_agg try_parse_url
    """.split()
)
"""Functions of texts for which Spark converts no bytes to a text, as it does for all others."""


def _find_bytes(call: TypedCall, bound: BoundArguments) -> SignatureMismatch | None:
    """Return the mismatch of bytes and texts that the function does not convert."""
    if call.name not in _WITHOUT_BYTES:
        return None
    pairs = enumerate(zip(call.arguments, bound.types, strict=True))
    found = (at for at, (given, type) in pairs if {given.type, type} == {BINARY, STRING})
    at = next(found, None)
    hint = f"cast(... as {bound.types[at]}) converts explicitly" if at is not None else ""
    return None if at is None else SignatureMismatch(at, str(bound.types[at]), hint)


def _mismatch_error(
    call: TypedCall, signatures: Sequence[Signature], mismatches: list[SignatureMismatch]
) -> ExpressionError:
    forms = " or ".join(signature.text for signature in signatures) + describe_type_variables(
        signatures
    )
    closest = max(mismatches, key=lambda m: -1 if m.index is None else m.index)
    if closest.index is None:
        argument_count = len(call.arguments)
        counts = " or ".join(sorted({m.expected for m in mismatches}))
        noun = "argument" if counts == "1" else "arguments"
        message = f"{call.name} takes {counts} {noun}, got {argument_count}"
        if foreign := find_foreign_hint(f"{call.name}/{argument_count}"):
            return ExpressionError(message, call.span, foreign)
        return ExpressionError(message, call.span, f"its signature is {forms}")
    argument = call.arguments[closest.index]
    wanted = " or ".join(dict.fromkeys(m.expected for m in mismatches if m.index == closest.index))
    message = f"{call.name} wants {wanted}, got {argument.type}"
    if other := _find_other_order(call, signatures):
        hint = _order_hint(other)
        if isinstance(argument.type, Struct):
            hint = f"use one of its fields, or {hint}"
        return ExpressionError(message, argument.span, hint)
    return ExpressionError(message, argument.span, closest.hint or f"its signature is {forms}")


def _find_other_order(call: TypedCall, signatures: Sequence[Signature]) -> Signature | None:
    """Return a signature that takes the arguments in another order."""
    if len(call.arguments) > MAX_PERMUTED_ARGUMENTS:
        return None
    for arguments in permutations(call.arguments):
        for signature in signatures:
            try:
                bound = bind_arguments(signature, arguments)
            except ExpressionError:
                continue
            if isinstance(bound, BoundArguments):
                return signature
    return None


def _hint_at_order(
    bound: BoundArguments, call: TypedCall, signatures: Sequence[Signature]
) -> BoundArguments:
    """Return the arguments with a hint at their order, where a literal could not be converted."""
    lost = [a for a in bound.arguments if isinstance(a, FunctionCall) and a.warning]
    other = _find_other_order(call, signatures) if lost else None
    if other is None:
        return bound
    hinted = (
        replace(a, warning=replace(a.warning, hint=_order_hint(other)))
        if isinstance(a, FunctionCall) and a.warning
        else a
        for a in bound.arguments
    )
    return replace(bound, arguments=tuple(hinted))


def _order_hint(signature: Signature) -> str:
    return f"the arguments are in another order: {signature.text}"


def _is_exact_match(signature: Signature, types: set[Type]) -> bool:
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
    resolve: Callable[[TypedCall], TypedExpression] | None = None,
    signatures: tuple[str, ...] = (),
    spark: str = AS_WRITTEN,
    is_higher_order: bool = False,
) -> SqlFunction:
    """Define a function; each example is an expression and its value, as Spark shows it."""
    texts = signatures or tuple(overload.signature.text for overload in overloads)
    examples = (example, *more)
    return SqlFunction(
        *(name, family, doc, overloads, examples, aliases, resolve, texts, spark, is_higher_order)
    )
