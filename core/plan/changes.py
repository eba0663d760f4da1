"""What becomes of a stream of upserts: which operations take one, and what they leave of its key.

A row that `where` holds back becomes a delete of its key, so filters take upserts as they are. A
projection must hand the key on, each column of it unchanged. Everything else would need to know the
row it replaces, and refuses upserts until it does.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.expressions.typed import Column
from headrace.core.plan.nodes import (
    BOUNDS,
    RANK,
    Aggregate,
    Append,
    Dedup,
    Filter,
    Keyed,
    Kind,
    Operation,
    Project,
    Top,
    Upsert,
)
from headrace.core.plan.windows import Session, Window


class Refused(Exception):
    """An operation does not take this kind of stream: why, what to do, and which clause it is."""

    def __init__(self, message: str, hint: str = "", clause: str = "from") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.clause = clause


def after(operation: Operation, kind: Kind) -> Kind:
    """The kind of the stream behind an operation; Refused where it does not take what comes."""
    if isinstance(kind, Append):
        return _made_by(operation) if isinstance(operation, Keyed) else kind
    if isinstance(operation, Filter):
        return replace(kind, deletes=True)
    if isinstance(operation, Project):
        kept = {
            column.name
            for column in operation.columns
            if isinstance(column.value, Column) and column.value.name == column.name
        }
        lost = ", ".join(name for name in kind.key if name not in kept)
        if lost:
            message = f"{operation.clause} must keep the key of the changes: {lost}"
            hint = "a change is told from another by its key"
            raise Refused(message, hint, operation.clause)
        return kind
    clause = type(operation).__name__.lower()
    raise Refused(f"{clause} does not take {_said(kind)}", clause=clause)


def _made_by(operation: Keyed) -> Kind:
    """What a keyed operation makes of facts."""
    names = tuple(column.name for column in operation.key)
    match operation:
        case Aggregate(window=None):
            return Upsert(names, deletes=operation.having is not None)
        case Aggregate(window=Window() as window) if window.fires_again:
            # A session that goes on is another window: the row of the old one is deleted.
            deletes = operation.having is not None or isinstance(window.shape, Session)
            return Upsert((*names, *BOUNDS) if window.bounded else names, deletes)
        case Top(window=None):
            return Upsert((*names, RANK))
        case Dedup(keep="last"):
            return Upsert(names)
    return Append()


def _said(kind: Upsert) -> str:
    key = f"upserts of {', '.join(kind.key)}" if kind.key else "upserts of one row"
    return f"a stream of changes ({key})"


def united(kinds: tuple[Kind, ...]) -> Kind:
    """The kind of a union: changes of one key may come by one way only."""
    changes = [kind for kind in kinds if isinstance(kind, Upsert)]
    if changes and len(kinds) > 1:
        raise Refused(f"a union does not take {_said(changes[0])}")
    return kinds[0] if kinds else Append()
