"""`between` and `case subject when`: one value that is compared with several others.

Spark evaluates the subject once, and compares it with each of the others in the common type of the
two. So does headrace: the subject is computed once, however often it is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.compilation import to_expr
from headrace.core.expressions.function import SqlFunction, TypedCall, function
from headrace.core.expressions.functions.common_types import widen_all
from headrace.core.expressions.functions.comparisons import COMPARISONS, compare_far_decimal
from headrace.core.expressions.functions.logic import build_case_chain, find_taken_branch
from headrace.core.expressions.typed import (
    ColumnReference,
    Constant,
    ExpressionError,
    ExpressionErrors,
    FunctionCall,
    TypedExpression,
    spark_form_of_parts,
    substitute_columns,
)
from headrace.core.types.data_types import BOOLEAN, is_nested

if TYPE_CHECKING:
    import polars as pl

_COMPARISONS_BY_NAME = {row.name: row for row in COMPARISONS}
_SUBJECT_COLUMN = "__subject"
"""The placeholder column of a computed subject in its comparisons."""


def _resolve_between(call: TypedCall) -> TypedExpression:
    from headrace.core.expressions.batch_forms import evaluate_once

    subject, low, high = call.arguments
    bound = _bind_subject(subject)
    calls = [TypedCall(">=", (bound, low), call.span), TypedCall("<=", (bound, high), call.span)]
    above, below = tests = _resolve_comparisons(calls)
    nullable = above.nullable or below.nullable
    if bound is subject:
        return FunctionCall(BOOLEAN, nullable, call.span, call.name, tests, lambda a, b: a & b)
    ends = (above.arguments[1], below.arguments[1])
    value = above.arguments[0]
    reads_values = all(compare_far_decimal(each) is None for each in calls)
    is_plain = reads_values and not is_nested(value.type)
    if value.type == below.arguments[0].type and is_plain:
        values = (substitute_columns(value, {_SUBJECT_COLUMN: subject}), *ends)
        return FunctionCall(BOOLEAN, nullable, call.span, call.name, values, _is_between)

    def form(subject: pl.Expr, low: pl.Expr, high: pl.Expr) -> pl.Expr:
        return _apply_comparison(above, subject, low) & _apply_comparison(below, subject, high)

    arguments, made = (subject, *ends), evaluate_once(form, BOOLEAN)
    return FunctionCall(
        BOOLEAN, nullable, call.span, call.name, arguments, made, spark_form_of_parts(*tests)
    )


def _is_between(value: pl.Expr, low: pl.Expr, high: pl.Expr) -> pl.Expr:
    return value.is_between(low, high)


def _resolve_case(call: TypedCall) -> TypedExpression:
    """Resolve the subject; other, result, other, result, ...; and a last result if there is an
    else."""
    from headrace.core.expressions.batch_forms import evaluate_once

    subject, *parts = call.arguments
    count = len(parts) // 2
    bound = subject if count == 1 else _bind_subject(subject)
    tests = _resolve_comparisons(
        [TypedCall("=", (bound, other), other.span) for other in parts[: count * 2 : 2]]
    )
    otherwise = parts[count * 2 :]
    case = TypedCall("case", call.arguments, call.span)
    results, common = widen_all(case, (*parts[1 : count * 2 : 2], *otherwise))
    nullable = not otherwise or any(result.nullable for result in results)
    if bound is subject:
        return FunctionCall(
            common,
            nullable,
            call.span,
            "case",
            (*tests, *results),
            build_case_chain,
            lazy=find_taken_branch,
        )
    others = [test.arguments[1] for test in tests]

    def form(subject: pl.Expr, *rest: pl.Expr) -> pl.Expr:
        conditions = map(_apply_comparison, tests, [subject] * count, rest)
        return build_case_chain(*conditions, *rest[count:])

    def find_used(before: Sequence[pl.Expr], used: Sequence[pl.Expr], arguments: int) -> pl.Expr:
        if len(before) == 1:
            return used[0]
        conditions = map(_apply_comparison, tests, [before[0]] * count, before[1:])
        return find_taken_branch([*conditions, *before[1 + count :]], used[1:], arguments - 1)

    arguments, made = (subject, *others, *results), evaluate_once(form, common)
    spark = spark_form_of_parts(*tests)
    return FunctionCall(common, nullable, call.span, "case", arguments, made, spark, lazy=find_used)


def _bind_subject(subject: TypedExpression) -> TypedExpression:
    """Return the node that stands for the subject in its comparisons: the subject itself, if it
    needs no computation."""
    if isinstance(subject, ColumnReference | Constant):
        return subject
    return ColumnReference(subject.type, subject.nullable, subject.span, _SUBJECT_COLUMN)


def _resolve_comparisons(calls: Sequence[TypedCall]) -> tuple[FunctionCall, ...]:
    """Resolve the comparisons; errors at different positions are raised at once."""
    tests: list[FunctionCall] = []
    errors: dict[object, ExpressionError] = {}
    for call in calls:
        try:
            test = _COMPARISONS_BY_NAME[call.name].resolve(call)
        except ExpressionError as error:
            errors.setdefault(error.span, error)
        else:
            assert isinstance(test, FunctionCall)
            tests.append(test)
    if errors:
        raise ExpressionErrors(errors.values())
    return tuple(tests)


def _apply_comparison(test: FunctionCall, subject: pl.Expr, other: pl.Expr) -> pl.Expr:
    """Apply a comparison to a computed subject, cast as the comparison needs."""
    return test.form(_apply_casts(test.arguments[0], subject), other)


def _apply_casts(typed: TypedExpression, subject: pl.Expr) -> pl.Expr:
    if isinstance(typed, FunctionCall):
        return typed.form(*(_apply_casts(argument, subject) for argument in typed.arguments))
    return subject if isinstance(typed, ColumnReference) else to_expr(typed)


BETWEEN_CASE: tuple[SqlFunction, ...] = (
    function(
        "between",
        "logic",
        "Whether the value lies between two others, both included.",
        example=("2 between 1 and 3", "true"),
        more=(("3 not between 1 and 3", "false"),),
        resolve=_resolve_between,
        signatures=("value: O [not] between low: O and high: O -> boolean",),
    ),
    function(
        "case subject",
        "logic",
        "The value after the first `when` that equals the subject; otherwise the value after else,"
        " or NULL.",
        example=("case 3 when 1 then 'one' when 2 then 'two' else 'many' end", "many"),
        more=(("case 3 when 1 then 'one' when 2 then 'two' end", "NULL"),),
        resolve=_resolve_case,
        signatures=("case subject when other then value [when ...] [else value] end",),
    ),
)
"""The functions with a subject."""
