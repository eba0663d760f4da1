"""Checks of taps against a plan: the stream of their rows, and the condition over its columns."""

from __future__ import annotations

from headrace.core.api.taps import TapError, TapRequest
from headrace.core.errors.problems import Location, Problem, find_nearest_name
from headrace.core.errors.rendering import render_problem
from headrace.core.expressions import ExpressionErrors, Span, TypedExpression, type_expression
from headrace.core.expressions.typed import with_null_on_failure
from headrace.core.plan import nodes
from headrace.core.types.data_types import BOOLEAN
from headrace.core.types.lazy_dataclass import dataclass

MAX_VALUE = 2**16
"""The largest value, in bytes, that a call in a condition may make."""


@dataclass(frozen=True, slots=True)
class CheckedTap:
    """A tap whose stream exists, and whose condition is typed."""

    request: TapRequest
    stream: nodes.Stream
    condition: TypedExpression | None = None


def check_tap(plan: nodes.Plan, request: TapRequest) -> CheckedTap:
    """Check a tap. Raises TapError."""
    stream = _find_stream(plan, request.stream)
    if request.where is None:
        return CheckedTap(request, stream)
    return CheckedTap(request, stream, _type_condition(request.where, stream))


def list_tapped_streams(plan: nodes.Plan) -> list[str]:
    """List the streams whose rows are read, in the order of the plan."""
    read = {edge.stream for edge in plan.edges}
    return [name for name in plan.streams if name in read and "@" not in name]


def _find_stream(plan: nodes.Plan, name: str) -> nodes.Stream:
    read = list_tapped_streams(plan)
    if name in read:
        return plan.streams[name]
    prefix = f"{name}."
    outputs = [each for each in read if each.startswith(prefix)]
    if outputs:
        message, hint = f"{name} has several outputs", f"there are {', '.join(outputs)}"
    elif name in plan.streams:
        message, hint = f"nothing reads {name}, so it has no rows", ""
    elif isinstance(sink := next((p for p in plan if p.name == name), None), nodes.Sink):
        message, hint = f"{name} is a sink", f"its rows are those of {sink.input.partition('@')[0]}"
    else:
        near = find_nearest_name(name, read)
        hint = f'did you mean "{near}"?' if near else f"there are {', '.join(read)}"
        message = f'unknown source or step "{name}"'
    raise TapError("no_such_stream", message, hint)


def _type_condition(text: str, stream: nodes.Stream) -> TypedExpression:
    try:
        typed = type_expression(text, stream.sink_schema, MAX_VALUE)
    except ExpressionErrors as error:
        first = error.errors[0]
        raise _reject(text, first.span, first.message, first.hint) from None
    if typed.type != BOOLEAN:
        message = f"wanted a condition (boolean), got {typed.type}"
        raise _reject(text, typed.span, message, "compare it")
    return with_null_on_failure(typed)  # a row on which it fails is not shown


def _reject(text: str, span: Span, message: str, hint: str) -> TapError:
    """Return the error of a condition, shown with its line and a caret."""
    line = text.count("\n", 0, span.start)
    shown = text.split("\n")[line]
    column = span.start - (text.rfind("\n", 0, span.start) + 1)
    length = max(min(span.end - span.start, len(shown) - column), 1)
    place = Location("where", line + 1, column + 1, length, shown)
    return TapError("invalid_condition", render_problem(Problem(message, place, hint)))
