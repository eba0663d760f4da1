"""`between` and `case subject when`: one value that is compared with several others.

Spark evaluates the subject once, and compares it with each of the others in the common type of the
two. So does headrace: the subject is computed once, however often it is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.core.expressions.function import Call, Function, function
from headrace.core.expressions.functions.comparisons import COMPARISONS
from headrace.core.expressions.functions.logic import chain
from headrace.core.expressions.functions.meeting import meet
from headrace.core.expressions.typed import (
    Apply,
    Column,
    Constant,
    ExpressionError,
    ExpressionErrors,
    Typed,
    ours_within,
    substituted,
    to_expr,
)
from headrace.core.types import BOOLEAN

if TYPE_CHECKING:
    import polars as pl

_ROWS = {row.name: row for row in COMPARISONS}
_BOUND = "__subject"
"""The placeholder column of a computed subject in its comparisons."""


def _between(call: Call) -> Typed:
    from headrace.core.expressions.batches import once

    subject, low, high = call.arguments
    bound = _bound(subject)
    above, below = tests = _each(
        [Call(">=", (bound, low), call.span), Call("<=", (bound, high), call.span)]
    )
    nullable = above.nullable or below.nullable
    if bound is subject:
        return Apply(BOOLEAN, nullable, call.span, call.name, tests, lambda a, b: a & b)
    ends = (above.arguments[1], below.arguments[1])
    value = above.arguments[0]
    if value.type == below.arguments[0].type:
        values = (substituted(value, {_BOUND: subject}), *ends)
        return Apply(BOOLEAN, nullable, call.span, call.name, values, _within)

    def form(subject: pl.Expr, low: pl.Expr, high: pl.Expr) -> pl.Expr:
        return _tested(above, subject, low) & _tested(below, subject, high)

    arguments, made = (subject, *ends), once(form, BOOLEAN)
    return Apply(BOOLEAN, nullable, call.span, call.name, arguments, made, ours_within(*tests))


def _within(value: pl.Expr, low: pl.Expr, high: pl.Expr) -> pl.Expr:
    return value.is_between(low, high)


def _case(call: Call) -> Typed:
    """Resolve the subject; other, result, other, result, ...; and a last result if there is an
    else."""
    from headrace.core.expressions.batches import once

    subject, *parts = call.arguments
    count = len(parts) // 2
    bound = subject if count == 1 else _bound(subject)
    tests = _each([Call("=", (bound, other), other.span) for other in parts[: count * 2 : 2]])
    otherwise = parts[count * 2 :]
    case = Call("case", call.arguments, call.span)
    results, common = meet(case, (*parts[1 : count * 2 : 2], *otherwise))
    nullable = not otherwise or any(result.nullable for result in results)
    if bound is subject:
        return Apply(common, nullable, call.span, "case", (*tests, *results), chain)
    others = [test.arguments[1] for test in tests]

    def form(subject: pl.Expr, *rest: pl.Expr) -> pl.Expr:
        conditions = map(_tested, tests, [subject] * count, rest)
        return chain(*conditions, *rest[count:])

    arguments, made = (subject, *others, *results), once(form, common)
    return Apply(common, nullable, call.span, "case", arguments, made, ours_within(*tests))


def _bound(subject: Typed) -> Typed:
    """Return the node that stands for the subject in its comparisons: the subject itself, if it
    needs no computation."""
    if isinstance(subject, Column | Constant):
        return subject
    return Column(subject.type, subject.nullable, subject.span, _BOUND)


def _each(calls: Sequence[Call]) -> tuple[Apply, ...]:
    """Resolve the comparisons; errors at different positions are raised at once."""
    tests: list[Apply] = []
    errors: dict[object, ExpressionError] = {}
    for call in calls:
        try:
            test = _ROWS[call.name].resolve(call)
        except ExpressionError as error:
            errors.setdefault(error.span, error)
        else:
            assert isinstance(test, Apply)
            tests.append(test)
    if errors:
        raise ExpressionErrors(errors.values())
    return tuple(tests)


def _tested(test: Apply, subject: pl.Expr, other: pl.Expr) -> pl.Expr:
    """Apply a comparison to a computed subject, cast as the comparison needs."""
    return test.form(_over(test.arguments[0], subject), other)


def _over(typed: Typed, subject: pl.Expr) -> pl.Expr:
    if isinstance(typed, Apply):
        return typed.form(*(_over(argument, subject) for argument in typed.arguments))
    return subject if isinstance(typed, Column) else to_expr(typed)


SUBJECTS: tuple[Function, ...] = (
    function(
        "between",
        "logic",
        "Whether the value lies between two others, both included.",
        example=("2 between 1 and 3", "true"),
        more=(("3 not between 1 and 3", "false"),),
        resolve=_between,
        signatures=("value: C [not] between low: C and high: C -> boolean",),
    ),
    function(
        "case subject",
        "logic",
        "The value after the first `when` that equals the subject; otherwise the value after else,"
        " or NULL.",
        example=("case 3 when 1 then 'one' when 2 then 'two' else 'many' end", "many"),
        more=(("case 3 when 1 then 'one' when 2 then 'two' end", "NULL"),),
        resolve=_case,
        signatures=("case subject when other then value [when ...] [else value] end",),
    ),
)
"""The functions with a subject."""
