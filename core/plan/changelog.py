"""The propagation of changelog streams: which operations accept them, and the kind of the output.

Upserts. A row that `where` rejects becomes a delete of its key, so that filters accept upserts as
they are. A projection must keep every column of the key unchanged. `top` and `aggregate` without a
window store the current rows, which are partitioned by the operation's own key: a change must not
move a row to another group, which may belong to another subtask.

Retractions. A removed row is there as a whole, so it goes the way that it went when it was added:
any projection, key or join is possible, as long as its values can be computed again. What a step
cannot do with upserts is done with retractions; the plan converts them. Values that cannot be
computed again, such as those of a lookup, are added to upserts: the conversion after such a step
stores them with the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from headrace.core.expressions.typed import (
    ColumnReference,
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
    ChangeColumn,
    ChangelogConversion,
    Dedup,
    Explode,
    Filter,
    Join,
    KeyedOperation,
    Lookup,
    Map,
    Match,
    Operation,
    Over,
    Process,
    Project,
    Retract,
    Route,
    RowTime,
    StreamKind,
    Top,
    Upsert,
    WeightConversion,
)
from headrace.core.plan.nodes import (
    Apply as Applied,
)
from headrace.core.plan.nodes.matching import AsOfMatch, TableMatch
from headrace.core.plan.nodes.windows import Count, Session, Window
from headrace.core.plan.row_expressions import list_expressions
from headrace.core.types.change_columns import CHANGE

LATER_STEP_HINT = "put it into a step after this one"
CHANGES_HINT = f"{{}}: {{{{..., changes: true{{}}}}}} gets changes as rows with a column {CHANGE}"


class ChangelogNotSupported(Exception):
    """An error: an operation does not accept this kind of stream; with a hint, and its clause."""

    def __init__(self, message: str, hint: str = "", clause: str = "from") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.clause = clause


class ValuesNotRepeatable(ChangelogNotSupported):
    """An error: the values of an operation may be others when the row that has them is removed."""


def infer_kind(operation: Operation, kind: StreamKind) -> StreamKind:
    """Return the kind of an operation's output. Raises ChangelogNotSupported."""
    if isinstance(operation, ChangelogConversion):
        return _infer_converted_kind(operation, kind)
    if isinstance(operation, Dedup) and operation.changes is not None:
        return kind
    if isinstance(operation, ChangeColumn):
        if isinstance(kind, Upsert):
            raise ChangelogNotSupported(f"changes does not take {describe_kind(kind)}")
        return Append()
    if isinstance(operation, WeightConversion):
        return kind if isinstance(kind, Retract) else Retract()
    if isinstance(kind, Append):
        return _infer_keyed_kind(operation) if isinstance(operation, KeyedOperation) else kind
    if isinstance(kind, Retract):
        return _infer_after_retractions(operation, kind)
    if isinstance(operation, Over | Match):
        raise _refuse_ordered(operation, kind)
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
    if isinstance(operation, Lookup | Map):
        _check_repeatable(operation, kind)
        return replace(kind, has_deletes=True, key_dependent_columns=frozenset())
    clause = _clause(operation)
    hint = LATER_STEP_HINT if isinstance(operation, RowTime) else ""
    raise ChangelogNotSupported(f"{clause} does not take {describe_kind(kind)}", hint, clause)


def _infer_converted_kind(conversion: ChangelogConversion, kind: StreamKind) -> StreamKind:
    """Return the kind of a conversion's output."""
    if conversion.form == "full":
        return Append()
    names = tuple(column.name for column in conversion.key)
    change_times = has_change_times(kind)
    if conversion.output == "retract" and conversion.form is None:
        return Retract(names, change_times)
    return Upsert(names, has_deletes=True, has_change_times=change_times)


def _check_repeatable(operation: Lookup | Map, kind: Upsert) -> None:
    """Check that rows keep their key, and the order of their changes."""
    described = describe_kind(kind)
    if isinstance(operation, Lookup):
        if not operation.keeps_order:
            message = f"lookup with ordered: false does not take {described}"
            hint = "leave out ordered: the last change of a row must come last"
            raise ValuesNotRepeatable(message, hint, "lookup")
        return
    lost = ", ".join(name for name in kind.key if name not in operation.returns)
    if lost:
        message = f"map of {described} must return their key: {lost}"
        hint = f"a step after this one may drop it; or {CHANGES_HINT.format('map', '')}"
        raise ValuesNotRepeatable(message, hint, "map")


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
        case Over():
            return "over"
        case Match():
            return "match"
        case Process():
            return "process"
        case RowTime():
            return "event_time"
    raise AssertionError(operation)


def to_retractions(kind: StreamKind) -> StreamKind:
    """Return the kind of a stream after the conversion of its upserts."""
    return Retract(kind.key, kind.has_change_times) if isinstance(kind, Upsert) else kind


def to_upserts(kind: StreamKind) -> StreamKind:
    """Return the kind of a stream after the conversion of its retractions, if they have a key."""
    if not isinstance(kind, Retract) or kind.key is None:
        return kind
    return Upsert(kind.key, has_deletes=True, has_change_times=kind.has_change_times)


def with_input_kind(operation: Operation, kind: StreamKind) -> Operation:
    """Return the operation with the kind of changes that it reads, if it reads changes."""
    if isinstance(operation, Lookup) and isinstance(kind, Upsert):
        return replace(operation, reads_upserts=True)
    if isinstance(operation, Aggregate | Top | Map) and isinstance(kind, Upsert):
        return replace(operation, changelog_key=kind.key)
    if isinstance(operation, Aggregate | Top) and isinstance(kind, Retract):
        return replace(operation, reads_retractions=True)
    return operation


def _infer_after_retractions(operation: Operation, kind: Retract) -> StreamKind:
    """Return the kind of an operation's output over retractions."""
    if isinstance(operation, Over | Match):
        raise _refuse_ordered(operation, kind)
    described = describe_kind(kind)
    for each in list_expressions(operation):
        if isinstance(operation, Aggregate | Top) and not each.is_key:
            continue  # the clock is rejected there whatever the rows are
        if any(isinstance(node, ProcessingTime) for node in walk(each.typed)):
            written = _written_clause(operation)
            message = f"{written} of {described} does not take the processing time"
            hint = (
                "a removed row would get another value: compute it in a step before, which keeps "
                "the key of the changes"
            )
            raise ChangelogNotSupported(message, hint, written)
    match operation:
        case Filter() | Route():
            return kind
        case RowTime():
            return replace(kind, has_change_times=False)
        case Project():
            unchanged = _find_unchanged_columns(operation)
            key = kind.key
            if key is None or not unchanged.keys() >= {*key}:
                return replace(kind, key=None)
            return replace(kind, key=tuple(unchanged[name] for name in key))
        case Explode():
            return replace(kind, key=None)
        case Aggregate(window=None):
            _check_ttl(operation, kind)
            names = tuple(column.name for column in operation.key)
            return Upsert(names, has_deletes=True, has_change_times=True)
        case Top(window=None):
            _check_ttl(operation, kind)
            if operation.has_ties:
                # A row that is replaced after its group was forgotten stays.
                key = kind.key if operation.ttl is None else None
                return Retract(key, has_change_times=True)
            names = tuple(column.name for column in operation.key)
            if operation.time_column:
                return Upsert(names, has_deletes=True)
            return Upsert((*names, RANK_COLUMN), has_deletes=True, has_change_times=True)
        case Aggregate(window=Window() as window) | Top(window=Window() as window):
            _check_table_window(window, kind)
            output = _infer_keyed_kind(operation)
            return replace(output, has_deletes=True) if isinstance(output, Upsert) else output
    raise _reject_retractions(operation, kind)


def _check_ttl(operation: Aggregate | Top, kind: Retract) -> None:
    """Check that an operation over rows that may be removed can forget a key.

    Raises ChangelogNotSupported.
    """
    if operation.ttl is None:
        return
    if operation.ttl.uses_processing_time:
        message = (
            f"ttl by the wall clock does not go with {describe_kind(kind)}: a row and its removal "
            "arrive at different times"
        )
        raise ChangelogNotSupported(message, "leave out time: processing", "ttl")
    check_own_times(kind, "ttl")


def _refuse_ordered(operation: Over | Match, kind: Upsert | Retract) -> ChangelogNotSupported:
    """Return the error of an order of rows that may be changed or removed."""
    hint = "put it before the changes begin"
    if isinstance(operation, Match):
        message = f"match does not take {describe_kind(kind)}: one change would change many matches"
        return ChangelogNotSupported(message, hint, "match")
    message = f"over does not take {describe_kind(kind)}: one change would change many rows"
    return ChangelogNotSupported(message, f"{hint}; top ranks the current rows of a key", "over")


def _reject_retractions(operation: Operation, kind: Retract) -> ChangelogNotSupported:
    """Return the error of an operation that does not take rows which may be removed."""
    clause = _clause(operation)
    message = f"{clause} does not take {describe_kind(kind)}"
    if not isinstance(operation, Map | Lookup):
        is_class = isinstance(operation, Process)
        hint = CHANGES_HINT.format(clause, ", order: arrival") if is_class else ""
        return ChangelogNotSupported(message, hint, clause)
    hint = "put it before the step that drops the key, or before the join or union"
    if isinstance(operation, Map):
        hint = f"{CHANGES_HINT.format(clause, '')}; or {hint}"
    lacks = " without a key" if kind.key is None else ""
    return ValuesNotRepeatable(f"{message}{lacks}", hint, clause)


def check_own_times(kind: StreamKind, clause: str, key: str = "") -> None:
    """Check that rows have event times of their own. Raises ChangelogNotSupported.

    `key` is the key of the step at which the error is reported, if it is not the clause.
    """
    if has_change_times(kind):
        message = (
            f"{clause} goes by the event time of rows, but rows of an aggregate, a top or a join "
            "by keys have that of their last change"
        )
        hint = "give them one in a step before, as in {from: ..., event_time: max_at}"
        raise ChangelogNotSupported(message, hint, key or clause)


def is_table_window(operation: Operation) -> bool:
    """Whether an operation has windows of rows that may be removed."""
    return (
        isinstance(operation, Aggregate | Top)
        and operation.window is not None
        and operation.reads_retractions
    )


def list_change_inputs(operations: Iterable[Operation]) -> frozenset[int | None]:
    """Return the inputs whose late rows are changes; None: the only input, 1: the right one."""
    inputs = set[int | None]()
    for operation in operations:
        if is_table_window(operation):
            inputs.add(None)
        if isinstance(operation, Join) and isinstance(operation.matching, AsOfMatch):
            inputs |= {1} if operation.matching.has_deletes else set()
        if isinstance(operation, Join) and isinstance(operation.matching, TableMatch):
            inputs |= {0, 1}
    return frozenset(inputs)


def _check_table_window(window: Window, kind: Retract) -> None:
    """Check that a window accepts rows that may be removed. Raises ChangelogNotSupported."""
    described = describe_kind(kind)
    for is_there, message, hint in _list_window_rules(window):
        if is_there:
            raise ChangelogNotSupported(message.format(described), hint, "window")
    check_own_times(kind, "window")


def _list_window_rules(window: Window) -> Iterator[tuple[bool, str, str]]:
    """Yield what windows of removed rows cannot have: whether it is there, a message and a hint."""
    trigger, is_session = window.trigger, isinstance(window.shape, Session)
    yield (
        isinstance(window.shape, Count),
        "a count window does not take {}: rows that may be removed come in no order",
        "use a window of time, or none; process: {..., changes: true, order: arrival} gets each "
        "change as a row",
    )
    yield (
        window.uses_processing_time,
        "a window of processing time does not take {}: a row and its removal arrive at different "
        "times",
        "leave out time: processing",
    )
    yield (
        trigger is not None and is_session,
        "window: trigger does not go with a session of {}",
        "leave it out, or use tumble, slide or cumulate",
    )
    yield (
        trigger is not None and trigger.depends_on_rows,
        "window: a trigger by rows does not go with {}: how many changes there are depends on how "
        "they arrive",
        "use trigger: {every: 10s}, which fires by time",
    )
    yield (
        not window.keeps_rows,
        "window: accumulate: false does not go with {}: a removed row may have been discarded",
        "leave it out",
    )


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
    """Return the kind of an aggregation of changes; no change may move a row to another group.

    The others take retractions, into which upserts are converted before a step.
    """
    has_fixed_groups = all(_depends_on_key_only(column.value, kind) for column in operation.key)
    has_ties = isinstance(operation, Top) and operation.has_ties
    takes_upserts = has_fixed_groups and not has_ties
    if operation.window is not None or operation.ttl is not None or not takes_upserts:
        clause = _clause(operation)
        message = f"{clause} does not take {describe_kind(kind)}"
        raise ChangelogNotSupported(message, LATER_STEP_HINT, clause)
    names = tuple(column.name for column in operation.key)
    names = (*names, RANK_COLUMN) if isinstance(operation, Top) else names
    return Upsert(names, has_deletes=True, has_change_times=True)


def _find_unchanged_columns(project: Project) -> dict[str, str]:
    """Return the columns that a projection keeps unchanged, with their output names."""
    same = [(c.value.name, c.name) for c in project.columns if isinstance(c.value, ColumnReference)]
    return dict(sorted(same, key=lambda names: names[0] == names[1]))


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
        case Top(window=None) if operation.has_ties:
            if operation.ttl is not None and operation.ttl.uses_processing_time:
                message = "ttl by the wall clock does not go with ties"
                raise ChangelogNotSupported(message, "leave out time: processing", "ttl")
            return Retract(has_change_times=True)
        case Top(window=None):
            return Upsert((*names, RANK_COLUMN), has_change_times=True)
        case Dedup(keep="last"):
            return Upsert(names)
    return Append()


def describe_kind(kind: Upsert | Retract) -> str:
    """Return the kind of a stream of changes in words."""
    if isinstance(kind, Retract):
        return "a stream of changes"
    key = f"upserts of {', '.join(kind.key)}" if kind.key else "upserts of one row"
    return f"a stream of changes ({key})"


def infer_union_kind(kinds: tuple[StreamKind, ...]) -> StreamKind:
    """Return the kind of a union. Raises ChangelogNotSupported."""
    changes = [kind for kind in kinds if not isinstance(kind, Append)]
    if len(kinds) < 2 or not changes:
        return kinds[0] if kinds else Append()
    if any(isinstance(kind, Upsert) for kind in changes):
        raise ChangelogNotSupported(f"a union does not take {describe_kind(changes[0])}")
    return Retract(has_change_times=any(map(has_change_times, kinds)))


def has_change_times(kind: StreamKind) -> bool:
    """Whether the event time of a row is that of a change, and not its own."""
    return not isinstance(kind, Append) and kind.has_change_times
