"""The kinds of the inputs that joins accept, and the kind of their output, with its key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headrace.core.expressions.typed import (
    ColumnReference,
    FunctionCall,
    TypedExpression,
    find_columns,
)
from headrace.core.plan.changelog import (
    ChangelogNotSupported,
    check_own_times,
    describe_kind,
    has_change_times,
)
from headrace.core.plan.nodes import (
    Append,
    Join,
    JoinSide,
    Retract,
    StreamKind,
    Upsert,
)
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    RuleMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.types.data_types import BIGINT, DATE, DOUBLE, FLOAT, INT, TIMESTAMP

CURRENT_ROWS_HINT = "without within, ttl and window it joins the current rows"

VERSIONS_HINT = "read the stream before the changes: of changes in one batch only the last is seen"


CONNECTED_HINT = (
    "read it from a step with map: {..., changes: true}, which gets changes as rows with a column "
    "_change; the class itself is without changes: true"
)

RULES_HINT = (
    "read it from a step with map: {..., changes: true}, which gets changes as rows with a column "
    "_change; a rule is replaced by its next row, and removed by one with removed: true"
)

JoinKinds: TypeAlias = tuple[StreamKind, StreamKind]
"""The kinds of the left and the right input."""


def infer_join_kind(join: Join, left: StreamKind, right: StreamKind) -> StreamKind:
    """Return the kind of a join's output. Raises ChangelogNotSupported."""
    if isinstance(join.matching, TableMatch):
        change_times = any(has_change_times(kind) for kind in (left, right))
        if join.matching.ttl_us is not None:
            for kind in (left, right):
                check_own_times(kind, "ttl", "join")
            return Retract()  # a row that is replaced later than the ttl stays
        if not join.matching.has_key:
            return Retract(has_change_times=change_times)
        return Retract(_derive_table_key(join, left, right), change_times)
    for side, kind in ((join.left, left), (join.right, right)):
        if not isinstance(kind, Append) and isinstance(join.matching, ConnectedMatch):
            clause = "broadcast" if join.matching.is_broadcast else "connect"
            message = f'{clause} of a class does not take "{side.name}": {describe_kind(kind)}'
            raise ChangelogNotSupported(message, CONNECTED_HINT, clause)
        if not isinstance(kind, Append) and isinstance(join.matching, RuleMatch):
            clause = "match" if side is join.right else "from"
            message = f'match does not take "{side.name}": {describe_kind(kind)}'
            raise ChangelogNotSupported(message, RULES_HINT, clause)
        if not isinstance(kind, Append):
            _check_join_side(join, side, kind, is_left=side is join.left)
    if not isinstance(join.matching, ChangelogMatch):
        return Append()
    assert isinstance(left, Upsert) and isinstance(right, Upsert), "both inputs are changelogs"
    key = _derive_join_key(join, left, right)
    return Upsert(key, has_deletes=True, has_change_times=True)


def _check_join_side(join: Join, side: JoinSide, kind: Upsert | Retract, *, is_left: bool) -> None:
    """Check that a join accepts changes on a side: a change must not move a row to another key."""
    match join.matching:
        case WindowMatch() | IntervalMatch(least_us=int()):
            message = f"a join in time does not take {describe_kind(kind)}"
            raise ChangelogNotSupported(message, CURRENT_ROWS_HINT, "join")
        case AsOfMatch():
            _check_versions(side, kind, is_left=is_left)
            return
        case BroadcastMatch(uses_event_time=in_time):
            if is_left:
                raise ChangelogNotSupported(
                    f"broadcast does not take {describe_kind(kind)}", clause="from"
                )
            if in_time:
                message = f"a broadcast in event time does not take {describe_kind(kind)}"
                raise ChangelogNotSupported(message, VERSIONS_HINT, "broadcast")
            if isinstance(kind, Retract):
                message = f"broadcast does not take {describe_kind(kind)}"
                raise ChangelogNotSupported(message, "join the rows instead", "broadcast")
            return


def _check_versions(side: JoinSide, kind: Upsert | Retract, *, is_left: bool) -> None:
    """Check that `as_of` accepts changes on a side: the versions of the row with each join key."""
    if is_left:
        message = f"as_of does not take {describe_kind(kind)} on its left side"
        hint = "without as_of it joins the rows that are there"
        raise ChangelogNotSupported(message, hint, "join")
    assert isinstance(kind, Upsert), "the plan found the versions of each row"
    if {_get_column_name(each.value) for each in side.key} != {*kind.key}:
        message = f'"{side.name}" is {describe_kind(kind)}, but is joined by other columns'
        hint = (
            f"on: compares its key and no other column: {', '.join(kind.key)}; "
            "where compares others after the join"
        )
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


def may_repeat_key(join: Join, kinds: JoinKinds) -> bool:
    """Whether two rows of a join of upserts by keys may have the same key.

    They are a left row and a right one without a match, both with nulls in all columns of their
    key.
    """
    return join.type == "full" and all(
        isinstance(kind, Upsert) and not kind.requires_key and _is_nullable(side, kind.key)
        for side, kind in zip((join.left, join.right), kinds, strict=True)
    )


def _is_nullable(side: JoinSide, names: Iterable[str]) -> bool:
    """Whether all these columns of an input may be null."""
    values = [each.value for each in side.columns]
    known = {v.name for v in values if isinstance(v, ColumnReference) and not v.nullable}
    return known.isdisjoint(names)


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
