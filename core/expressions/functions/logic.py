"""Three-valued logic, the tests for NULL, and the choice between values.

`and`, `or`, `not` are Kleene's, as in Polars. Where one of several values is chosen, all of them
are widened to one type, which is text where one of them is text. Both branches of a choice are
computed for every row, which is harmless except for calls that may fail: `lazy` rules say where a
value is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.expressions.function import SqlFunction, TypedCall, function, overload
from headrace.core.expressions.functions.common_types import to_condition, widen, widen_all
from headrace.core.expressions.functions.comparisons import (
    COMPARISONS,
    build_null_safe_equality,
    widen_pair,
)
from headrace.core.expressions.signature import BoundArguments
from headrace.core.expressions.typed import (
    ColumnReference,
    Constant,
    ExpressionError,
    FunctionCall,
    PolarsForm,
    TypedExpression,
    find_inputs,
    spark_form_of_parts,
)
from headrace.core.types.data_types import BOOLEAN, FLOAT, INT, NULL, STRING, is_numeric, to_polars

if TYPE_CHECKING:
    import polars as pl


def _resolve_case(call: TypedCall) -> TypedExpression:
    """Resolve `case`: condition, value, condition, value, ..., and a last value if there is an
    else."""
    parts = call.arguments
    conditions = [to_condition(call, part, null=False) for part in parts[: len(parts) // 2 * 2 : 2]]
    otherwise = parts[-1:] if len(parts) % 2 else ()
    values, common = widen_all(call, (*parts[1 : len(parts) // 2 * 2 : 2], *otherwise))
    nullable = not otherwise or any(value.nullable for value in values)
    return FunctionCall(
        common,
        nullable,
        call.span,
        call.name,
        (*conditions, *values),
        build_case_chain,
        lazy=find_taken_branch,
    )


def find_taken_branch(before: Sequence[pl.Expr], used: Sequence[pl.Expr], count: int) -> pl.Expr:
    """Return in which rows an argument of a case chain is used (a `LazyRule`)."""
    at, conditions = len(before), count // 2
    if conditions <= at < 2 * conditions:  # the value of a condition
        test = at - conditions
        return used[test] & before[test].fill_null(False)
    test = min(at, conditions) - 1
    return used[test] & ~before[test].fill_null(False)


def _find_unset(before: Sequence[pl.Expr], used: Sequence[pl.Expr], _: int) -> pl.Expr:
    """Return in which rows a value of `coalesce` is used (a `LazyRule`)."""
    return used[-1] & before[-1].is_null()


def build_case_chain(*arguments: pl.Expr) -> pl.Expr:
    """Build the form of: the conditions, then a value for each, then perhaps a default."""
    import polars as pl

    count = len(arguments) // 2
    conditions, values = arguments[:count], arguments[count:]
    result = values[count] if len(values) > count else pl.lit(None)
    for test, value in zip(reversed(conditions), reversed(values[:count]), strict=True):
        result = pl.when(test).then(value).otherwise(result)
    return result


def use_where(condition: TypedExpression, value: TypedExpression) -> TypedExpression:
    """Return a value that is used only where a condition is true, and is NULL elsewhere."""
    return FunctionCall(
        value.type,
        True,
        value.span,
        "if",
        (condition, value),
        build_case_chain,
        lazy=find_taken_branch,
    )


def _resolve_if(call: TypedCall) -> TypedExpression:
    test, *branches = _expect_arguments(call, 3, "if(condition, then, else)")
    values, common = widen_all(call, branches)
    nullable = any(value.nullable for value in values)
    arguments = (to_condition(call, test, null=True), *values)
    return FunctionCall(
        common,
        nullable,
        call.span,
        call.name,
        arguments,
        build_case_chain,
        lazy=find_taken_branch,
    )


def _resolve_nvl2(call: TypedCall) -> TypedExpression:
    import polars as pl

    test, *branches = _expect_arguments(call, 3, "nvl2(value, if_not_null, if_null)")
    values, common = widen_all(call, branches)
    nullable = any(value.nullable for value in values)

    def form(value: pl.Expr, present: pl.Expr, absent: pl.Expr) -> pl.Expr:
        return pl.when(value.is_not_null()).then(present).otherwise(absent)

    def find_used(before: Sequence[pl.Expr], used: Sequence[pl.Expr], _: int) -> pl.Expr:
        unset = before[0].is_null()
        return used[0] & (~unset if len(before) == 1 else unset)

    return FunctionCall(
        common, nullable, call.span, call.name, (test, *values), form, lazy=find_used
    )


def _resolve_coalesce(call: TypedCall) -> TypedExpression:
    import polars as pl

    if not call.arguments:
        raise ExpressionError(f"{call.name} takes at least 1 argument, got 0", call.span)
    values, common = widen_all(call, call.arguments)
    nullable = all(value.nullable for value in values)
    # Values after a constant that is not NULL are not read: there Polars loses the number of rows.
    constants = (
        i for i, value in enumerate(values, 1) if not (value.nullable or find_inputs(value))
    )
    read = values[: next(constants, len(values))]
    return FunctionCall(
        common,
        nullable,
        call.span,
        call.name,
        read,
        lambda *v: pl.coalesce(*v),
        lazy=_find_unset,
    )


def _resolve_nvl(call: TypedCall) -> TypedExpression:
    _expect_arguments(call, 2, f"{call.name}(value, if_null)")
    return _resolve_coalesce(call)


def _resolve_nullif(call: TypedCall) -> TypedExpression:
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    value = _expect_arguments(call, 2, "nullif(value, unwanted)")[0]
    left, right = widen_pair(call)
    # The value cast as the comparison needs, from the computed value.
    widen = left.form if isinstance(left, FunctionCall) and left.arguments == (value,) else None
    null = pl.lit(None, dtype=to_polars(value.type))

    def form(value: pl.Expr, right: pl.Expr, *left: pl.Expr) -> pl.Expr:
        compared = widen(value) if widen else left[0] if left else value
        return pl.when(compared == right).then(null).otherwise(value)

    separate = () if widen or left is value else (left,)
    arguments = (value, right, *separate)
    made = evaluate_once(form, value.type)
    return FunctionCall(
        value.type, True, call.span, call.name, arguments, made, spark_form_of_parts(left)
    )


def _resolve_zeroifnull(call: TypedCall) -> TypedExpression:
    value = _expect_number(call)
    value = widen(value, INT) if value.type == NULL else value
    return _resolve_coalesce(replace(call, arguments=(value, _make_zero(call))))


def _resolve_nullifzero(call: TypedCall) -> TypedExpression:
    value = _expect_number(call)
    if value.type == NULL:
        return value
    return _resolve_nullif(replace(call, arguments=(value, _make_zero(call))))


def _make_zero(call: TypedCall) -> TypedExpression:
    return Constant(INT, False, call.span, 0)


def _expect_number(call: TypedCall) -> TypedExpression:
    """Return the only argument, a number, a text that stands for one, or NULL."""
    (value,) = _expect_arguments(call, 1, f"{call.name}(value)")
    if value.type not in (NULL, STRING) and not is_numeric(value.type):
        raise ExpressionError(f"{call.name} wants a number, got {value.type}", value.span)
    return value


def _resolve_equal_null(call: TypedCall) -> TypedExpression:
    left, right = _expect_arguments(call, 2, "equal_null(left, right)")
    left, right = widen_pair(replace(call, arguments=(left, right)))
    form = build_null_safe_equality(left, right)
    return FunctionCall(BOOLEAN, False, call.span, call.name, (left, right), form)


def _expect_arguments(call: TypedCall, count: int, text: str) -> Sequence[TypedExpression]:
    actual = len(call.arguments)
    if actual != count:
        noun = "argument" if count == 1 else "arguments"
        message = f"{call.name} takes {count} {noun}, got {actual}"
        raise ExpressionError(message, call.span, f"its signature is {text}")
    return call.arguments


def _build_nanvl(bound: BoundArguments) -> PolarsForm:
    import polars as pl

    from headrace.core.expressions.batch_forms import evaluate_once

    def form(value: pl.Expr, other: pl.Expr) -> pl.Expr:
        return pl.when(value.is_nan()).then(other).otherwise(value)

    return evaluate_once(form, bound.result)


_NANVL = function(
    "nanvl",
    "logic",
    "The value, or the other if the value is NaN; NULL stays NULL.",
    overload("nanvl(value: double, if_nan: double) -> double", build=_build_nanvl),
    overload("nanvl(value: float, if_nan: float) -> float", build=_build_nanvl),
    example=("nanvl(cast('NaN' as double), 0)", "0.0"),
)


def _resolve_nanvl(call: TypedCall) -> TypedExpression:
    """Resolve `nanvl`: a bare NULL with a float is a float, so that the result is one."""
    types = [argument.type for argument in call.arguments]
    if types == [FLOAT, NULL]:
        value, other = call.arguments
        call = TypedCall(call.name, (value, widen(other, FLOAT)), call.span)
    return _NANVL.resolve(call)


_COMPARISON_NAMES = frozenset(
    {"=", "<>", "<", "<=", ">", ">=", "<=>", "like", "ilike", "rlike", "between"}
)


def _define_connective(
    name: str, doc: str, form: PolarsForm, example: tuple[str, str], more: tuple[str, str]
) -> SqlFunction:
    text = f"{name}(left: boolean, right: boolean) -> boolean"
    plain = function(name, "logic", doc, overload(text, form, nulls="strict"), example=example)

    def find_used(before: Sequence[pl.Expr], used: Sequence[pl.Expr], _: int) -> pl.Expr:
        """Return in which rows the left side does not decide."""
        left = before[0]
        return used[0] & (left.fill_null(True) if name == "and" else ~left.fill_null(False))

    def resolve(call: TypedCall) -> TypedExpression:
        _refuse_half_comparison(call)
        typed = plain.resolve(call)
        return replace(typed, lazy=find_used) if isinstance(typed, FunctionCall) else typed

    return replace(plain, resolve_own=resolve, examples=(example, more))


def _refuse_half_comparison(call: TypedCall) -> None:
    """Refuse `n = 1 or 2`, where one side is not a comparison."""
    if len(call.arguments) != 2:
        return
    left, right = call.arguments
    for half, other in ((right, _last_condition(left)), (left, right)):
        compared = isinstance(other, FunctionCall) and other.function in _COMPARISON_NAMES
        if compared and half.type not in (BOOLEAN, NULL):
            message = f"{call.name} wants boolean, got {half.type}"
            hint = (
                f"write a full comparison on both sides of {call.name}{_in_list_hint(call, other)}"
            )
            raise ExpressionError(message, half.span, hint)


def _last_condition(typed: TypedExpression) -> TypedExpression:
    """Return the last condition of a chain of `and` and `or`."""
    while isinstance(typed, FunctionCall) and typed.function in ("and", "or"):
        typed = typed.arguments[-1]
    return typed


def _in_list_hint(call: TypedCall, compared: TypedExpression) -> str:
    """Return the shorter form with `in`, where a column is compared with several values."""
    assert isinstance(compared, FunctionCall)
    named = [each.name for each in compared.arguments if isinstance(each, ColumnReference)]
    if call.name == "or" and compared.function == "=" and len(named) == 1:
        return f", or write {named[0]} in (..., ...)"
    return ""


_CONNECTIVES: tuple[SqlFunction, ...] = (
    _define_connective(
        "and",
        "True if both are true; false if one is false, whatever the other is; otherwise NULL.",
        lambda a, b: a & b,
        ("null and false", "false"),
        ("null and true", "NULL"),
    ),
    _define_connective(
        "or",
        "True if one is true, whatever the other is; false if both are false; otherwise NULL.",
        lambda a, b: a | b,
        ("null or true", "true"),
        ("null or false", "NULL"),
    ),
    function(
        "not",
        "logic",
        "The negation of a condition; NULL stays NULL. ! is the same.",
        overload("not(value: boolean) -> boolean", lambda a: ~a, nulls="strict"),
        example=("not 1 = 2", "true"),
    ),
)


def _resolve_truth_test(call: TypedCall) -> TypedExpression:
    """Resolve `is true` and `is false`: a number or a text is compared with the boolean."""
    (value,) = _expect_arguments(call, 1, f"value {call.name}")
    if value.type in (BOOLEAN, NULL):
        return _TRUTH_TESTS[call.name].resolve(call)
    truth = Constant(BOOLEAN, False, value.span, call.name == "is true")
    return _resolve_equal_null(replace(call, arguments=(value, truth)))


_TRUTH_TESTS = {
    "is true": function(
        "is true",
        "logic",
        "Whether a condition is true; never NULL.",
        overload("istrue(value: boolean) -> boolean", lambda a: a.fill_null(False), nulls="never"),
        example=("cast(null as boolean) is true", "false"),
        more=(("cast(null as boolean) is not true", "true"),),
        signatures=("value is [not] true -> boolean",),
    ),
    "is false": function(
        "is false",
        "logic",
        "Whether a condition is false; never NULL.",
        overload(
            "isfalse(value: boolean) -> boolean", lambda a: (~a).fill_null(False), nulls="never"
        ),
        example=("(1 = 2) is false", "true"),
        signatures=("value is [not] false -> boolean",),
    ),
}

_TESTS: tuple[SqlFunction, ...] = (
    function(
        "isnull",
        "logic",
        "Whether the value is NULL, the same as `is null`. NaN is not NULL.",
        overload("isnull(value: T) -> boolean", lambda a: a.is_null(), nulls="never"),
        example=("isnull(1)", "false"),
        more=(("null is null", "true"),),
    ),
    function(
        "isnotnull",
        "logic",
        "Whether the value is not NULL, the same as `is not null`.",
        overload("isnotnull(value: T) -> boolean", lambda a: a.is_not_null(), nulls="never"),
        example=("isnotnull(1)", "true"),
        more=(("1 is not null", "true"),),
    ),
    *(replace(row, resolve_own=_resolve_truth_test) for row in _TRUTH_TESTS.values()),
    function(
        "equal_null",
        "logic",
        "Whether both values are equal, or both are NULL; the same as <=>.",
        example=("equal_null(null, null)", "true"),
        more=(("equal_null(1, null)", "false"),),
        resolve=_resolve_equal_null,
        signatures=("equal_null(left: T, right: T) -> boolean",),
    ),
)

_CHOICES: tuple[SqlFunction, ...] = (
    function(
        "case",
        "logic",
        "The value after the first condition that is true; otherwise that after else, or NULL.",
        example=("case when 1 > 2 then 'a' when 2 > 1 then 'b' else 'c' end", "b"),
        resolve=_resolve_case,
        signatures=("case when condition then value [when ...] [else value] end",),
    ),
    function(
        "if",
        "logic",
        "The second argument if the condition is true; the third if it is false or NULL.",
        example=("if(1 > 2, 'a', 'b')", "b"),
        more=(("if(null, 1, 2.5)", "2.5"),),
        resolve=_resolve_if,
        signatures=("if(condition: boolean, then: T, else: T) -> T",),
    ),
    function(
        "coalesce",
        "logic",
        "The first value that is not NULL.",
        example=("coalesce(null, 1, 2)", "1"),
        resolve=_resolve_coalesce,
        signatures=("coalesce(value: T, other: T...) -> T",),
    ),
    function(
        "nvl",
        "logic",
        "The value, or the other if the value is NULL.",
        example=("nvl(null, 'none')", "none"),
        aliases=("ifnull",),
        resolve=_resolve_nvl,
        signatures=("nvl(value: T, if_null: T) -> T",),
    ),
    function(
        "nvl2",
        "logic",
        "The second argument if the first is not NULL, otherwise the third.",
        example=("nvl2(null, 'some', 'none')", "none"),
        resolve=_resolve_nvl2,
        signatures=("nvl2(value: U, if_not_null: T, if_null: T) -> T",),
    ),
    function(
        "nullif",
        "logic",
        "The value, or NULL if it equals the other.",
        example=("nullif('', '')", "NULL"),
        more=(("nullif(1, 2.0)", "1"),),
        resolve=_resolve_nullif,
        signatures=("nullif(value: T, unwanted: U) -> T",),
    ),
    replace(_NANVL, resolve_own=_resolve_nanvl),
    function(
        "nullifzero",
        "logic",
        "The number, or NULL if it is zero.",
        example=("nullifzero(0)", "NULL"),
        more=(("nullifzero(2)", "2"),),
        resolve=_resolve_nullifzero,
        signatures=("nullifzero(value: N) -> N",),
    ),
    function(
        "zeroifnull",
        "logic",
        "The number, or zero if it is NULL.",
        example=("zeroifnull(null)", "0"),
        more=(("zeroifnull(2)", "2"),),
        resolve=_resolve_zeroifnull,
        signatures=("zeroifnull(value: N) -> N",),
    ),
)

LOGIC: tuple[SqlFunction, ...] = (*_CONNECTIVES, *COMPARISONS, *_TESTS, *_CHOICES)
"""The functions of conditions."""
