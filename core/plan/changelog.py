"""The propagation of changelog streams (upserts): which operations accept them, and the output key.

A row that `where` rejects becomes a delete of its key, so that filters accept upserts as they are.
A projection must keep every column of the key unchanged. `top` and `aggregate` without a window
store the current rows, which are partitioned by the operation's own key: a change must not move a
row to another group, which may belong to another subtask. All other operations reject upserts.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.core.expressions.typed import (
    ColumnReference,
    FunctionCall,
    ProcessingTime,
    TypedExpression,
    find_columns,
    walk,
)
from headrace.core.pipeline.yaml_document.error_context import format_flow_scalar
from headrace.core.plan.nodes import (
    RANK_COLUMN,
    WINDOW_BOUNDS,
    Aggregate,
    Append,
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
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.types.data_types import BIGINT, DATE, DOUBLE, FLOAT, INT, TIMESTAMP

VERSIONS_HINT = "read the stream before the changes: of changes in one batch only the last is seen"


class ChangelogNotSupported(Exception):
    """An error: an operation does not accept this kind of stream; with a hint, and its clause."""

    def __init__(self, message: str, hint: str = "", clause: str = "from") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.clause = clause


def infer_kind(operation: Operation, kind: StreamKind) -> StreamKind:
    """Return the kind of an operation's output. Raises ChangelogNotSupported."""
    if isinstance(kind, Append):
        return _infer_keyed_kind(operation) if isinstance(operation, KeyedOperation) else kind
    if isinstance(operation, Filter):
        return replace(kind, has_deletes=True)
    if isinstance(operation, Project):
        unchanged_columns = _find_unchanged_columns(operation)
        lost = ", ".join(name for name in kind.key if name not in unchanged_columns)
        if lost:
            message = f"{operation.clause} must keep the key of the changes: {lost}"
            hint = "changes are identified by their key"
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


def with_changelog_key(operation: Operation, kind: StreamKind) -> Operation:
    """Return the operation with the key of the changes that it reads, if it reads changes."""
    if isinstance(operation, Aggregate | Top) and isinstance(kind, Upsert):
        return replace(operation, changelog_key=kind.key)
    return operation


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
    for side, kind in ((join.left, left), (join.right, right)):
        if isinstance(kind, Upsert) and isinstance(join.matching, ConnectedMatch):
            clause = "broadcast" if join.matching.is_broadcast else "connect"
            raise ChangelogNotSupported(
                f"process does not take {_describe_kind(kind)}", clause=clause
            )
        if isinstance(kind, Upsert):
            _check_join_side(join, side, kind, is_left=side is join.left)
    if not isinstance(join.matching, ChangelogMatch):
        if isinstance(join.matching, IntervalMatch) and (left, right) != (Append(), Append()):
            facts, changes = ("left", right) if isinstance(right, Upsert) else ("right", left)
            assert isinstance(changes, Upsert)
            message = (
                f"a join of facts ({facts}) and {_describe_kind(changes)} has no key of its own"
            )
            raise ChangelogNotSupported(message, _suggest_broadcast(join, left), "join")
        return Append()
    assert isinstance(left, Upsert) and isinstance(right, Upsert), "both inputs are changelogs"
    return Upsert(_derive_join_key(join, left, right), has_deletes=True)


BROADCAST_TYPES = {
    **{(False, kind): kind for kind in ("inner", "left", "semi", "anti")},
    **{(True, "inner"): "inner", (True, "right"): "left"},
}
"""The type of a broadcast that equals a join, by whether the changes are its left input."""


def _suggest_broadcast(join: Join, left: StreamKind) -> str:
    """Return the broadcast that joins rows with the current rows of a stream of changes."""
    of_left = isinstance(left, Upsert)
    facts, changes = (join.right, join.left) if of_left else (join.left, join.right)
    kind = BROADCAST_TYPES.get((of_left, join.type))
    if kind is None:
        return "a broadcast with order: arrival joins rows with the current rows of the changes"
    given = f", type: {kind}" if kind != "inner" else ""
    on = format_flow_scalar(join.text)
    return (
        f"write from: {facts.name}, broadcast: {{rules: {changes.name}, on: {on}{given}, "
        "order: arrival}, for the rows that have arrived; or join the stream before the changes "
        "with as_of: true, by event time"
    )


def _check_join_side(join: Join, side: JoinSide, kind: Upsert, *, is_left: bool) -> None:
    """Check that a join accepts changes on a side: a change must not move a row to another key."""
    match join.matching:
        case WindowMatch() | IntervalMatch(least_us=int()):
            message = f"a join in time does not take {_describe_kind(kind)}"
            raise ChangelogNotSupported(message, VERSIONS_HINT, "join")
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
            return
    by = {name for column in side.key for name in find_columns(column.value)}
    if not by <= set(kind.key):
        message = f'"{side.name}" is {_describe_kind(kind)}, but is joined by other columns'
        hint = f"join it by columns of its key: {', '.join(kind.key)}"
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


def _describe_kind(kind: Upsert) -> str:
    key = f"upserts of {', '.join(kind.key)}" if kind.key else "upserts of one row"
    return f"a stream of changes ({key})"


def infer_union_kind(kinds: tuple[StreamKind, ...]) -> StreamKind:
    """Return the kind of a union: all changes of a key must come from one input."""
    changes = [kind for kind in kinds if isinstance(kind, Upsert)]
    if changes and len(kinds) > 1:
        raise ChangelogNotSupported(f"a union does not take {_describe_kind(changes[0])}")
    return kinds[0] if kinds else Append()
