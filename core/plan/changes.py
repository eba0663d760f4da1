"""The propagation of changelog streams (upserts): which operations accept them, and the output key.

A row that `where` rejects becomes a delete of its key, so that filters accept upserts as they are.
A projection must keep every column of the key unchanged. `top` and `aggregate` without a window
store the current rows, which are partitioned by the operation's own key: a change must not move a
row to another group, which may belong to another subtask. All other operations reject upserts.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.expressions.typed import (
    Apply,
    Column,
    ProcessingTime,
    Typed,
    columns,
    walk,
)
from headrace.core.plan.matching import AsOf, Changing, Connected, Everywhere, SameWindow, Within
from headrace.core.plan.nodes import (
    BOUNDS,
    RANK,
    Aggregate,
    Append,
    Dedup,
    Explode,
    Filter,
    Join,
    Keyed,
    Kind,
    Lookup,
    Map,
    Operation,
    Process,
    Project,
    Route,
    Side,
    Top,
    Upsert,
)
from headrace.core.plan.nodes import (
    Apply as Applied,
)
from headrace.core.plan.windows import Session, Window
from headrace.core.types import BIGINT, DATE, DOUBLE, FLOAT, INT, TIMESTAMP

VERSIONS = "read the stream before the changes: of changes in one batch only the last is seen"


class Refused(Exception):
    """An error: an operation does not accept this kind of stream; with a hint, and its clause."""

    def __init__(self, message: str, hint: str = "", clause: str = "from") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.clause = clause


def after(operation: Operation, kind: Kind) -> Kind:
    """Return the kind of an operation's output. Raises ChangelogNotSupported."""
    if isinstance(kind, Append):
        return _made_by(operation) if isinstance(operation, Keyed) else kind
    if isinstance(operation, Filter):
        return replace(kind, deletes=True)
    if isinstance(operation, Project):
        kept = _handed_on(operation)
        lost = ", ".join(name for name in kind.key if name not in kept)
        if lost:
            message = f"{operation.clause} must keep the key of the changes: {lost}"
            hint = "changes are identified by their key"
            raise Refused(message, hint, operation.clause)
        fixed = frozenset(c.name for c in operation.columns if _is_fixed(c.value, kind))
        return replace(kind, key=tuple(kept[name] for name in kind.key), fixed=fixed)
    if isinstance(operation, Aggregate | Top):
        return _made_of_changes(operation, kind)
    clause = _clause(operation)
    raise Refused(f"{clause} does not take {_said(kind)}", clause=clause)


def _clause(operation: Operation) -> str:
    """Return the word for an operation that refuses changes, or takes some of them."""
    match operation:
        case Explode():
            return "explode"
        case Filter():
            return "filter"
        case Project():
            return "project"
        case Map():
            return "map"
        case Lookup():
            return "lookup"
        case Route():
            return "route"
        case Join():
            return "join"
        case Aggregate():
            return "aggregate"
        case Applied():
            return "apply"
        case Top():
            return "top"
        case Dedup():
            return "dedup"
        case Process():
            return "process"


def reading(operation: Operation, kind: Kind) -> Operation:
    """Return the operation with the key of the changes that it reads, if it reads changes."""
    if isinstance(operation, Aggregate | Top) and isinstance(kind, Upsert):
        return replace(operation, changes=kind.key)
    return operation


def _is_fixed(value: Typed, kind: Upsert) -> bool:
    """Whether a value depends on the key of the changes alone."""
    clock = any(isinstance(node, ProcessingTime) for node in walk(value))
    return not clock and columns(value) <= {*kind.key, *kind.fixed}


def _made_of_changes(operation: Aggregate | Top, kind: Upsert) -> Kind:
    """Return the kind of an aggregation of changes; no change may move a row to another group."""
    clause = _clause(operation)
    if operation.window is not None:
        message = f"{clause} with a window does not take {_said(kind)}"
        hint = "without window it uses the current rows"
        raise Refused(message, hint, "window")
    if operation.ttl is not None:
        message = f"ttl does not go with {_said(kind)}: a row stays until a change deletes it"
        raise Refused(message, clause="ttl")
    for column in operation.key:
        if not _is_fixed(column.value, kind):
            message = (
                f'{clause} of {_said(kind)}: a change may move a row to another "{column.name}"'
            )
            parts = ", ".join(kind.key)
            hint = f"compute the key from {parts} only: other columns of a row may change"
            hint = hint if parts else "leave out key"
            raise Refused(message, hint, "key")
    names = tuple(column.name for column in operation.key)
    return Upsert((*names, RANK) if isinstance(operation, Top) else names, deletes=True)


def _handed_on(project: Project) -> dict[str, str]:
    """Return the columns that a projection keeps unchanged, with their output names."""
    same = [(c.value.name, c.name) for c in project.columns if isinstance(c.value, Column)]
    return dict(sorted(same, key=lambda names: names[0] == names[1]))


def joined(join: Join, left: Kind, right: Kind) -> Kind:
    """Return the kind of a join's output. Raises ChangelogNotSupported."""
    for side, kind in ((join.left, left), (join.right, right)):
        if isinstance(kind, Upsert) and isinstance(join.matching, Connected):
            clause = "broadcast" if join.matching.everywhere else "connect"
            raise Refused(f"process does not take {_said(kind)}", clause=clause)
        if isinstance(kind, Upsert):
            _check_side(join, side, kind, is_left=side is join.left)
    if not isinstance(join.matching, Changing):
        if isinstance(join.matching, Within) and (left, right) != (Append(), Append()):
            facts, changes = ("left", right) if isinstance(right, Upsert) else ("right", left)
            assert isinstance(changes, Upsert)
            message = f"a join of facts ({facts}) and {_said(changes)} has no key of its own"
            hint = "as_of: true takes the right row that is valid at the time of the left row"
            raise Refused(message, hint, "join")
        return Append()
    assert isinstance(left, Upsert) and isinstance(right, Upsert), "both inputs are changelogs"
    return Upsert(_key_of(join, left, right), deletes=True)


def _check_side(join: Join, side: Side, kind: Upsert, *, is_left: bool) -> None:
    """Check that a join accepts changes on a side: a change must not move a row to another key."""
    match join.matching:
        case SameWindow() | Within(least_us=int()):
            raise Refused(f"a join in time does not take {_said(kind)}", clause="join")
        case AsOf():
            raise Refused(f"as_of does not take {_said(kind)}", VERSIONS, "join")
        case Everywhere(in_time=in_time):
            if is_left:
                raise Refused(f"broadcast does not take {_said(kind)}", clause="from")
            if in_time:
                message = f"a broadcast in event time does not take {_said(kind)}"
                raise Refused(message, VERSIONS, "broadcast")
            return
    by = {name for column in side.key for name in columns(column.value)}
    if not by <= set(kind.key):
        message = f'"{side.name}" is {_said(kind)}, but is joined by other columns'
        hint = f"join it by columns of its key: {', '.join(kind.key)}"
        raise Refused(message, hint, "join")


def _key_of(join: Join, left: Upsert, right: Upsert) -> tuple[str, ...]:
    """Return the key of a changelog join's rows: both keys, without columns that are equal."""
    equal = [
        (one_as, other_as)
        for one, other in zip(join.left.key, join.right.key, strict=True)
        if (one_as := _as_it_is(one.value)) and (other_as := _as_it_is(other.value))
    ]
    mine, theirs = left.key, right.key
    if join.type in ("semi", "anti"):
        theirs = ()
    elif join.type in ("inner", "left"):
        theirs = tuple(name for name in theirs if name not in {other for _, other in equal})
    elif join.type == "right":
        mine = tuple(name for name in mine if name not in {one for one, _ in equal})
    # Pushdown may have removed an equal column that nothing reads.
    of_left, of_right = _names(join.left), _names(join.right)
    return (*(of_left[name] for name in mine), *(of_right[name] for name in theirs))


WIDER = {(INT, BIGINT), (INT, DOUBLE), (FLOAT, DOUBLE), (DATE, TIMESTAMP)}
"""Pairs of types: the second represents every value of the first distinctly."""


def _as_it_is(value: Typed) -> str:
    """Return the column that a value is, possibly cast to a wider type; "" if it is none."""
    match value:
        case Column(name=name):
            return name
        case Apply(function="cast", arguments=(Column(name=name, type=narrow),)) if (
            narrow,
            value.type,
        ) in WIDER:
            return name
    return ""


def _names(side: Side) -> dict[str, str]:
    """Return the columns of an input, with their names in the join's output."""
    return {c.value.name: c.name for c in side.columns if isinstance(c.value, Column)}


def _made_by(operation: Keyed) -> Kind:
    """Return the kind of a keyed operation's output over append-only rows."""
    names = tuple(column.name for column in operation.key)
    match operation:
        case Aggregate(window=None):
            return Upsert(names, deletes=operation.having is not None)
        case Aggregate(window=Window() as window) if window.fires_again:
            # An extended session is another window: the row of the old one is deleted.
            deletes = operation.having is not None or isinstance(window.shape, Session)
            return Upsert((*names, *BOUNDS) if window.bounded else names, deletes)
        case Applied(window=window) if window.fires_again:
            return Upsert((*names, *BOUNDS) if window.bounded else names, deletes=True)
        case Top(window=None):
            return Upsert((*names, RANK))
        case Dedup(keep="last"):
            return Upsert(names)
    return Append()


def _said(kind: Upsert) -> str:
    key = f"upserts of {', '.join(kind.key)}" if kind.key else "upserts of one row"
    return f"a stream of changes ({key})"


def united(kinds: tuple[Kind, ...]) -> Kind:
    """Return the kind of a union: all changes of a key must come from one input."""
    changes = [kind for kind in kinds if isinstance(kind, Upsert)]
    if changes and len(kinds) > 1:
        raise Refused(f"a union does not take {_said(changes[0])}")
    return kinds[0] if kinds else Append()
