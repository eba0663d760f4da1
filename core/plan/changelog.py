"""The propagation of changelog streams: which operations accept them, and the kind of the output.

Upserts. A row that `where` rejects becomes a delete of its key, so that filters accept upserts as
they are. A projection must keep every column of the key unchanged. `top` and `aggregate` without a
window store the current rows, which are partitioned by the operation's own key: a change must not
move a row to another group, which may belong to another subtask.

Retractions. A removed row is there as a whole, so it goes the way that it went when it was added:
any projection, key or join is possible, as long as its values do not depend on the clock or on
chance. What a step cannot do with upserts is done with retractions; the plan converts them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from headrace.core.expressions.typed import (
    ColumnReference,
    FunctionCall,
    ProcessingTime,
    TypedExpression,
    find_columns,
    walk,
)
from headrace.core.plan.nodes import (
    RANK_COLUMN,
    WINDOW_BOUNDS,
    Aggregate,
    Append,
    ChangelogConversion,
    Dedup,
    Explode,
    Filter,
    Join,
    JoinSide,
    KeyedOperation,
    Lookup,
    Map,
    Operation,
    Process,
    Project,
    Retract,
    Route,
    StreamKind,
    Top,
    Upsert,
)
from headrace.core.plan.nodes import (
    Apply as Applied,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.plan.row_expressions import list_expressions
from headrace.core.types.data_types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    TIMESTAMP,
)

CURRENT_ROWS_HINT = "without within, ttl and window it joins the current rows"

VERSIONS_HINT = "read the stream before the changes: of changes in one batch only the last is seen"


JoinKinds: TypeAlias = tuple[StreamKind, StreamKind]
"""The kinds of the left and the right input."""


class ChangelogNotSupported(Exception):
    """An error: an operation does not accept this kind of stream; with a hint, and its clause."""

    def __init__(self, message: str, hint: str = "", clause: str = "from") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.clause = clause


def infer_kind(operation: Operation, kind: StreamKind) -> StreamKind:
    """Return the kind of an operation's output. Raises ChangelogNotSupported."""
    if isinstance(operation, ChangelogConversion):
        if operation.form == "full":
            return Append()
        names = tuple(column.name for column in operation.key)
        retracts = operation.output == "retract" and operation.form is None
        return Retract(names) if retracts else Upsert(names, has_deletes=True)
    if isinstance(operation, Dedup) and operation.changes is not None:
        return kind
    if isinstance(kind, Append):
        return _infer_keyed_kind(operation) if isinstance(operation, KeyedOperation) else kind
    if isinstance(kind, Retract):
        return _infer_after_retractions(operation, kind)
    if isinstance(operation, Filter):
        return replace(kind, has_deletes=True)
    if isinstance(operation, Project):
        unchanged_columns = _find_unchanged_columns(operation)
        lost = ", ".join(name for name in kind.key if name not in unchanged_columns)
        if lost:
            message = f"{operation.clause} must keep the key of the changes: {lost}"
            hint = "changes are identified by their key; a step after this one may drop it"
            raise ChangelogNotSupported(message, hint, operation.clause)
        fixed = frozenset(c.name for c in operation.columns if _depends_on_key_only(c.value, kind))
        return replace(
            kind,
            key=tuple(unchanged_columns[name] for name in kind.key),
            key_dependent_columns=fixed,
        )
    if isinstance(operation, Aggregate | Top):
        return _infer_aggregation_kind(operation, kind)
    clause = _clause(operation)
    raise ChangelogNotSupported(f"{clause} does not take {_describe_kind(kind)}", clause=clause)


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
    raise AssertionError(operation)


def to_retractions(kind: StreamKind) -> StreamKind:
    """Return the kind of a stream after the conversion of its upserts."""
    return Retract(kind.key) if isinstance(kind, Upsert) else kind


def with_input_kind(operation: Operation, kind: StreamKind) -> Operation:
    """Return the operation with the kind of changes that it reads, if it reads changes."""
    if isinstance(operation, Aggregate | Top) and isinstance(kind, Upsert):
        return replace(operation, changelog_key=kind.key)
    if isinstance(operation, Aggregate | Top) and isinstance(kind, Retract):
        return replace(operation, reads_retractions=True)
    return operation


def _infer_after_retractions(operation: Operation, kind: Retract) -> StreamKind:
    """Return the kind of an operation's output over retractions."""
    clause = _clause(operation)
    described = _describe_kind(kind)
    for each in list_expressions(operation):
        if any(isinstance(node, ProcessingTime) for node in walk(each.typed)):
            written = _written_clause(operation)
            message = f"{written} of {described} does not take the processing time"
            hint = "a removed row would get another value: compute it before the changes"
            raise ChangelogNotSupported(message, hint, written)
    match operation:
        case Filter() | Route():
            return kind
        case Project():
            unchanged = _find_unchanged_columns(operation)
            key = kind.key
            if key is None or not unchanged.keys() >= {*key}:
                return Retract()
            return Retract(tuple(unchanged[name] for name in key))
        case Explode():
            return Retract()
        case Aggregate(window=None, ttl=None):
            return Upsert(tuple(column.name for column in operation.key), has_deletes=True)
        case Top(window=None, ttl=None):
            names = tuple(column.name for column in operation.key)
            return Upsert((*names, RANK_COLUMN), has_deletes=True)
        case Aggregate() | Top() if operation.window is not None:
            message = f"{clause} with a window does not take {described}"
            hint = "without window it uses the current rows"
            raise ChangelogNotSupported(message, hint, "window")
        case Aggregate() | Top():
            message = f"ttl does not go with {described}: a row stays until a change deletes it"
            raise ChangelogNotSupported(message, clause="ttl")
    raise ChangelogNotSupported(f"{clause} does not take {described}", clause=clause)


def _written_clause(operation: Operation) -> str:
    """Return the key of the step under which an operation is written."""
    match operation:
        case Filter():
            return "where"
        case Project(clause=clause):
            return clause
        case Aggregate() | Top() | Dedup():
            return "key"
    return _clause(operation)


def _depends_on_key_only(value: TypedExpression, kind: Upsert) -> bool:
    """Whether a value depends on the key of the changes alone."""
    clock = any(isinstance(node, ProcessingTime) for node in walk(value))
    return not clock and find_columns(value) <= {*kind.key, *kind.key_dependent_columns}


def _infer_aggregation_kind(operation: Aggregate | Top, kind: Upsert) -> StreamKind:
    """Return the kind of an aggregation of changes; no change may move a row to another group."""
    clause = _clause(operation)
    if operation.window is not None:
        message = f"{clause} with a window does not take {_describe_kind(kind)}"
        hint = "without window it uses the current rows"
        raise ChangelogNotSupported(message, hint, "window")
    if operation.ttl is not None:
        message = (
            f"ttl does not go with {_describe_kind(kind)}: a row stays until a change deletes it"
        )
        raise ChangelogNotSupported(message, clause="ttl")
    for column in operation.key:
        if not _depends_on_key_only(column.value, kind):
            message = (
                f"{clause} of {_describe_kind(kind)}: a change may move a row to another "
                f'"{column.name}"'
            )
            parts = ", ".join(kind.key)
            hint = f"compute the key from {parts} only: other columns of a row may change"
            hint = hint if parts else "leave out key"
            raise ChangelogNotSupported(message, hint, "key")
    names = tuple(column.name for column in operation.key)
    return Upsert((*names, RANK_COLUMN) if isinstance(operation, Top) else names, has_deletes=True)


def _find_unchanged_columns(project: Project) -> dict[str, str]:
    """Return the columns that a projection keeps unchanged, with their output names."""
    same = [(c.value.name, c.name) for c in project.columns if isinstance(c.value, ColumnReference)]
    return dict(sorted(same, key=lambda names: names[0] == names[1]))


def infer_join_kind(join: Join, left: StreamKind, right: StreamKind) -> StreamKind:
    """Return the kind of a join's output. Raises ChangelogNotSupported."""
    if isinstance(join.matching, TableMatch):
        return Retract(_derive_table_key(join, left, right))
    for side, kind in ((join.left, left), (join.right, right)):
        if not isinstance(kind, Append) and isinstance(join.matching, ConnectedMatch):
            clause = "broadcast" if join.matching.is_broadcast else "connect"
            raise ChangelogNotSupported(
                f"process does not take {_describe_kind(kind)}", clause=clause
            )
        if not isinstance(kind, Append):
            _check_join_side(join, side, kind, is_left=side is join.left)
    if not isinstance(join.matching, ChangelogMatch):
        return Append()
    assert isinstance(left, Upsert) and isinstance(right, Upsert), "both inputs are changelogs"
    return Upsert(_derive_join_key(join, left, right), has_deletes=True)


def _check_join_side(join: Join, side: JoinSide, kind: Upsert | Retract, *, is_left: bool) -> None:
    """Check that a join accepts changes on a side: a change must not move a row to another key."""
    match join.matching:
        case WindowMatch() | IntervalMatch(least_us=int()):
            message = f"a join in time does not take {_describe_kind(kind)}"
            raise ChangelogNotSupported(message, CURRENT_ROWS_HINT, "join")
        case AsOfMatch():
            raise ChangelogNotSupported(
                f"as_of does not take {_describe_kind(kind)}", VERSIONS_HINT, "join"
            )
        case BroadcastMatch(uses_event_time=in_time):
            if is_left:
                raise ChangelogNotSupported(
                    f"broadcast does not take {_describe_kind(kind)}", clause="from"
                )
            if in_time:
                message = f"a broadcast in event time does not take {_describe_kind(kind)}"
                raise ChangelogNotSupported(message, VERSIONS_HINT, "broadcast")
            if isinstance(kind, Retract):
                message = f"broadcast does not take {_describe_kind(kind)}"
                raise ChangelogNotSupported(message, "join the rows instead", "broadcast")
            return
    assert isinstance(kind, Upsert), "a join of changelogs by their keys"
    by = {name for column in side.key for name in find_columns(column.value)}
    if not by <= set(kind.key):
        message = f'"{side.name}" is {_describe_kind(kind)}, but is joined by other columns'
        hint = f"join it by columns of its key: {', '.join(kind.key)}; or leave out ttl"
        raise ChangelogNotSupported(message, hint, "join")


def _derive_join_key(join: Join, left: Upsert, right: Upsert) -> tuple[str, ...]:
    """Return the key of a changelog join's rows: both keys, without columns that are equal."""
    equal = [
        (one_as, other_as)
        for one, other in zip(join.left.key, join.right.key, strict=True)
        if (one_as := _get_column_name(one.value)) and (other_as := _get_column_name(other.value))
    ]
    left_key, right_key = left.key, right.key
    if join.type in ("semi", "anti"):
        right_key = ()
    elif join.type in ("inner", "left"):
        right_key = tuple(name for name in right_key if name not in {other for _, other in equal})
    elif join.type == "right":
        left_key = tuple(name for name in left_key if name not in {one for one, _ in equal})
    # Pushdown may have removed an equal column that nothing reads.
    of_left, of_right = _get_output_names(join.left), _get_output_names(join.right)
    return (*(of_left[name] for name in left_key), *(of_right[name] for name in right_key))


def joins_by_keys(join_keys: Iterable[Iterable[TypedExpression]], kinds: JoinKinds) -> bool:
    """Whether both inputs are upserts, joined by columns of their keys."""
    return all(
        isinstance(kind, Upsert)
        and {name for value in values for name in find_columns(value)} <= {*kind.key}
        for values, kind in zip(join_keys, kinds, strict=True)
    )


def _derive_table_key(join: Join, left: StreamKind, right: StreamKind) -> tuple[str, ...] | None:
    """Return the columns that identify a row of the join; None if there are none.

    A side whose key is joined by gives each row of the other side one match at the most.
    """
    sides = ((join.left, left), (join.right, right))
    of_left, of_right = (_get_side_key(side, kind) for side, kind in sides)
    if join.type in ("semi", "anti"):
        return of_left
    if join.type in ("inner", "left") and _is_joined_by_key(*sides[1]):
        return of_left
    if join.type in ("inner", "right") and _is_joined_by_key(*sides[0]):
        return of_right
    return None if of_left is None or of_right is None else (*of_left, *of_right)


def _is_joined_by_key(side: JoinSide, kind: StreamKind) -> bool:
    """Whether at most one row of an input has the same values in the join key."""
    if isinstance(kind, Append) or kind.key is None:
        return False
    return {_get_column_name(each.value) for each in side.key} >= {*kind.key}


def _get_side_key(side: JoinSide, kind: StreamKind) -> tuple[str, ...] | None:
    """Return the key of an input in the output of the join; None if it has none there."""
    names = _get_output_names(side)
    if isinstance(kind, Append) or kind.key is None or not names.keys() >= {*kind.key}:
        return None
    return tuple(names[name] for name in kind.key)


WIDENING_CASTS = {(INT, BIGINT), (INT, DOUBLE), (FLOAT, DOUBLE), (DATE, TIMESTAMP)}
"""Pairs of types: the second represents every value of the first distinctly."""


def _get_column_name(value: TypedExpression) -> str:
    """Return the column that a value is, possibly cast to a wider type; "" if it is none."""
    match value:
        case ColumnReference(name=name):
            return name
        case FunctionCall(
            function="cast", arguments=(ColumnReference(name=name, type=narrow),)
        ) if (
            narrow,
            value.type,
        ) in WIDENING_CASTS:
            return name
    return ""


def _get_output_names(side: JoinSide) -> dict[str, str]:
    """Return the columns of an input, with their names in the join's output."""
    return {c.value.name: c.name for c in side.columns if isinstance(c.value, ColumnReference)}


def _infer_keyed_kind(operation: KeyedOperation) -> StreamKind:
    """Return the kind of a keyed operation's output over append-only rows."""
    names = tuple(column.name for column in operation.key)
    match operation:
        case Aggregate(window=None):
            return Upsert(names, has_deletes=operation.having is not None)
        case Aggregate(window=Window() as window) if window.can_fire_again:
            # An extended session is another window: the row of the old one is deleted.
            deletes = operation.having is not None or isinstance(window.shape, Session)
            return Upsert((*names, *WINDOW_BOUNDS) if window.has_bounds else names, deletes)
        case Applied(window=window) if window.can_fire_again:
            return Upsert(
                (*names, *WINDOW_BOUNDS) if window.has_bounds else names, has_deletes=True
            )
        case Top(window=None):
            return Upsert((*names, RANK_COLUMN))
        case Dedup(keep="last"):
            return Upsert(names)
    return Append()


def _describe_kind(kind: Upsert | Retract) -> str:
    if isinstance(kind, Retract):
        return "a stream of changes"
    key = f"upserts of {', '.join(kind.key)}" if kind.key else "upserts of one row"
    return f"a stream of changes ({key})"


def infer_union_kind(kinds: tuple[StreamKind, ...]) -> StreamKind:
    """Return the kind of a union. Raises ChangelogNotSupported."""
    changes = [kind for kind in kinds if not isinstance(kind, Append)]
    if len(kinds) < 2 or not changes:
        return kinds[0] if kinds else Append()
    if len(changes) < len(kinds):
        message = f"a union of other rows does not take {_describe_kind(changes[0])}"
        raise ChangelogNotSupported(message, "unite changes with changes only")
    if not all(isinstance(kind, Retract) for kind in changes):
        raise ChangelogNotSupported(f"a union does not take {_describe_kind(changes[0])}")
    return Retract()
