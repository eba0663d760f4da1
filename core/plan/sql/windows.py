"""Windows in `group by`: tumble, hop, cumulate, session, and Spark's window and session_window."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from headrace.core.expressions.parsing.literals import parse_interval
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    SyntaxNode,
)
from headrace.core.pipeline.clauses.windows import Window
from headrace.core.plan.sql.scope import Scope
from headrace.core.plan.sql.texts import QueryTexts
from headrace.core.plan.sql.time_bounds import find_column, find_time, read_interval
from headrace.core.types.data_types import STRING, Interval
from headrace.core.types.lazy_dataclass import dataclass

WINDOW_START, WINDOW_END = "window_start", "window_end"


@dataclass(frozen=True, slots=True)
class _Form:
    """The arguments of a window after the time, by the keys of the clause `window`."""

    example: str
    keys: tuple[str, ...]
    least: int
    struct: str = ""
    """The name of Spark's column with both ends."""


_FORMS = {
    "tumble": _Form("tumble(at, interval 1 minute)", ("tumble", "offset"), 1),
    "hop": _Form(
        "hop(at, interval 10 seconds, interval 1 minute)", ("every", "slide", "offset"), 2
    ),
    "cumulate": _Form(
        "cumulate(at, interval 10 minutes, interval 1 hour)", ("every", "cumulate", "offset"), 2
    ),
    "session": _Form("session(at, interval 30 seconds)", ("session",), 1),
    "window": _Form("window(at, '1 minute')", ("slide", "every", "offset"), 1, "window"),
    "session_window": _Form("session_window(at, '30 seconds')", ("session",), 1, "session_window"),
}


def is_window(node: SyntaxNode) -> bool:
    """Whether an item of `group by` is a window."""
    return isinstance(node, CallNode) and node.name in _FORMS


@dataclass(frozen=True, slots=True)
class GroupWindow:
    """The window of a `group by`."""

    clause: Window
    call: CallNode | None = None
    """Its call; None if a key is the end of a window, and its name means that."""

    def find_bound(self, node: SyntaxNode) -> str:
        """Return the text of a start, an end or both; "" for other nodes."""
        if self.call is None:
            return ""
        struct = _FORMS[self.call.name].struct
        match node:
            case Name(name=("window_start" | "window_end") as name):
                return name
            case Name(name=name) if struct and name == struct:
                return f"named_struct('start', {WINDOW_START}, 'end', {WINDOW_END})"
            case Member(base=Name(name=name), name=("start" | "end") as end) if name == struct:
                return f"window_{end}" if struct else ""
            case CallNode(name=name) if name == self.call.name:
                if not struct:
                    return ""
                return f"named_struct('start', {WINDOW_START}, 'end', {WINDOW_END})"
        return ""


def find_end_window(node: SyntaxNode, scope: Scope) -> GroupWindow | None:
    """Return the window of groups whose key is the end of a window of their rows, if it is."""
    column = find_column(node, scope)
    windows = None if column is None or column.time is None else column.time.windows
    if windows is None:
        return None
    size, offset = (timedelta(microseconds=us) for us in (windows.size_us, windows.offset_us))
    keys: dict[str, Any] = {"tumble": size, **({"offset": offset} if offset else {})}
    return GroupWindow(Window.model_construct(**keys))


def read_window(call: CallNode, scope: Scope, texts: QueryTexts, *, timed: bool) -> GroupWindow:
    """Return the window of a call. Raises RejectedQuery."""
    form = _FORMS[call.name]
    if not form.least < len(call.arguments) <= len(form.keys) + 1:
        message = f"wanted {form.example}, got {texts.cut(call.span)}"
        raise texts.reject(message, call.span)
    time, *lengths = call.arguments
    is_clock = is_current_time(time, scope)
    if not is_clock:
        _check_time(call, time, scope, texts, timed=timed)
    values = [_read_length(each, form, texts) for each in lengths]
    keys = dict(zip(form.keys, values, strict=False))
    if call.name == "window" and (len(values) == 1 or keys["every"] == keys["slide"]):
        keys["tumble"] = keys.pop("slide")
        keys.pop("every", None)
    _check_lengths(call, keys, lengths, texts)
    given: dict[str, Any] = {**keys, **({"time": "processing"} if is_clock else {})}
    return GroupWindow(Window.model_construct(**given), call)


def is_current_time(time: SyntaxNode, scope: Scope) -> bool:
    """Whether a time is that of the wall clock."""
    match time:
        case CallNode(name="current_timestamp" | "now", arguments=()):
            return True
        case Name(name=name):
            return name.lower() == "current_timestamp" and not scope.has(time)
    return False


def _check_time(
    call: CallNode, time: SyntaxNode, scope: Scope, texts: QueryTexts, *, timed: bool
) -> None:
    """Check that the time of a window is the event time of its rows."""
    column, moved = find_column(time, scope), find_time(time, scope)
    if moved is not None and not moved.moved:
        return
    if isinstance(time, CallNode) and time.name == "proctime":
        message = f"the time of arrival is current_timestamp(), got {texts.cut(time.span)}"
        raise texts.reject(message, time.span, "write current_timestamp()")
    times = [each.name for each in scope.columns if each.is_time] or [
        f"{each.name} - interval {each.time.after_us} microsecond"
        for each in scope.columns
        if each.time is not None
    ]
    if column is None and isinstance(time, Name | Member):
        texts.write(time, scope)  # its error says which columns there are
    message = f"{call.name} goes by the event time of rows, and {texts.cut(time.span)} is not it"
    if times:
        hint = f"write {times[0]}"
    elif not timed:
        hint = "set event_time in the source, or in a step before"
    else:
        hint = "select the column of event_time of its source, unchanged"
    raise texts.reject(message, time.span, hint)


def _read_length(node: SyntaxNode, form: _Form, texts: QueryTexts) -> timedelta:
    length = read_interval(node)
    if length is not None:
        return length
    if isinstance(node, Literal) and node.type == STRING:
        try:
            type, count = parse_interval(str(node.value), "", None)
        except ValueError:
            type = None
        if isinstance(type, Interval) and not type.is_months:
            return timedelta(microseconds=count)
    message = f"wanted a length of time such as interval 10 seconds, got {texts.cut(node.span)}"
    raise texts.reject(message, node.span, f"as in {form.example}")


def _check_lengths(
    call: CallNode, keys: dict[str, timedelta], nodes: Sequence[SyntaxNode], texts: QueryTexts
) -> None:
    for key, node in zip(keys, nodes, strict=False):
        if keys[key] <= timedelta() and key != "offset":
            raise texts.reject("wanted a length longer than 0 s", node.span)
    every, long = keys.get("every"), keys.get("slide") or keys.get("cumulate")
    if every is None or long is None:
        return
    if every > long:
        message = f"{call.name}: windows would begin further apart than they are long"
        raise texts.reject(message, call.span, f"as in {_FORMS[call.name].example}")
    if call.name == "cumulate" and long % every:
        message = "cumulate: wanted a length that is a multiple of the step"
        raise texts.reject(message, call.span, f"as in {_FORMS[call.name].example}")
