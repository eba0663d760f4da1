"""Descriptions of the parts of a plan in words: one line for each clause.

`explain` arranges these lines; this module does not depend on the output format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.core.expressions.typed import ColumnReference
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.formatting import (
    format_changelog_suffix,
    format_microseconds,
    format_options,
)
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.plan.nodes import (
    EVENT_TIME_VALUE,
    Aggregate,
    Apply,
    ChangeColumn,
    ChangelogConversion,
    ChangeOrder,
    ComputedColumn,
    Dedup,
    Explode,
    Filter,
    Join,
    KeyedOperation,
    Lookup,
    LookupColumn,
    Map,
    Operation,
    Over,
    Process,
    ProcessBody,
    Project,
    Route,
    RowTime,
    Sink,
    Source,
    Step,
    Top,
    WeightConversion,
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
from headrace.core.plan.nodes.windows import (
    Count,
    Cumulate,
    Evict,
    Global,
    Session,
    Slide,
    Trigger,
    Ttl,
    Tumble,
    Window,
    WindowShape,
)
from headrace.core.plan.over_reach import measure_reach
from headrace.core.plan.states import StepStateSummary, format_owners
from headrace.core.plan.stored_rows import StoredRowSize
from headrace.core.types.change_columns import CHANGE, ChangeForm

_CHANGE_FORMS: Mapping[ChangeForm, str] = {
    "full": "rows with _change and _sequence",
    "debezium": "Debezium envelopes",
}


def describe_keyed_operation(operation: KeyedOperation) -> Iterator[str]:
    """Yield the clauses of an operation, one per line."""
    match operation:
        case Dedup(key, changes=ChangeOrder() as order):
            expiry = f", {_format_ttl(operation.ttl)} for deletions" if operation.ttl else ""
            yield f"newest change by {_format_key(key)}, {_describe_change_order(order)}{expiry}"
        case Dedup(key, keep, ttl):
            by_time = " by event time" if operation.uses_event_time else ""
            expiry = f", {_format_ttl(ttl)}" if ttl else ""
            late = f", late rows to {operation.late_to}" if operation.late_to else ""
            yield f"dedup by {_format_key(key)}, keep {keep}{by_time}{expiry}{late}"
        case Over():
            yield from _describe_over(operation)
        case ChangelogConversion():
            by = _format_key(operation.key) or "no key: one row"
            described = _CHANGE_FORMS[operation.form] if operation.form else operation.output
            yield f"changes as {described}, by {by}"
        case Process():
            yield f"key {_format_key(operation.key)}"
            late = f", late rows to {operation.late_to}" if operation.late_to else ""
            yield from describe_process_body(operation.body, late)
        case Top(time_column=str(time)) if time:
            keep = "last" if operation.by[0].descending else "first"
            changes = _format_changes(operation)
            yield f"dedup by {_format_key(operation.key)}, keep {keep} by event time{changes}"
        case Aggregate() | Apply() | Top():
            yield (
                f"key {_format_key(operation.key)}"
                if operation.key
                else "no key: one group of all rows"
            )
            if operation.window:
                yield f"window {describe_window(operation.window)}"
            if isinstance(operation, Top):
                by = ", ".join(ranking.text for ranking in operation.by)
                ties = f", ties: {operation.ties}" if operation.has_ties else ""
                yield f"top {operation.rows} by {by}{ties}{_format_changes(operation)}"
            elif isinstance(operation, Apply):
                yield f"apply {operation.code} to {', '.join(operation.input_columns.names)}"
            else:
                columns = (f"{column.name} = {column.text}" for column in operation.columns)
                yield f"aggregate {', '.join(columns)}{_format_changes(operation)}"
                if operation.emits_empty:
                    yield "a row for no rows, too"
                if operation.having:
                    yield f"having {operation.having.text}"
            if operation.ttl:
                yield _format_ttl(operation.ttl)


def _describe_change_order(changes: ChangeOrder) -> str:
    """Describe the order of the changes of a key."""
    if changes.sequence is not None:
        return f"in the order of {changes.sequence.text}"
    order = {"place": "that of their splits and rows", "arrival": "that of their arrival"}
    return f"in the order {order[changes.by].removeprefix('that ')}"


def _describe_over(over: Over) -> Iterator[str]:
    """Yield the clauses of columns over ordered rows, and how far they reach."""
    yield f"key {_format_key(over.key)}" if over.key else "no key: one group of all rows"
    columns = ", ".join(f"{column.name} = {column.text}" for column in over.columns)
    late = f", late rows to {over.late_to}" if over.late_to else ""
    yield f"over {columns}, by event time{late}"
    reach = measure_reach(over)
    before = _format_reach(reach.rows_before, reach.us_before)
    if before:
        yield f"stores {before} before a row"
    after = _format_reach(reach.rows_after, reach.us_after)
    if after:
        endless = ", for as long as it takes: the watermark waits until the end of the input"
        yield f"a row waits for {after} after it{endless if reach.is_endless else ''}"
    if over.ttl:
        yield _format_ttl(over.ttl)


def _format_reach(rows: int, us: int) -> str:
    counted = f"{rows} row{'s' if rows > 1 else ''}" if rows else ""
    return " and ".join(
        filter(None, (counted, f"{format_signed_duration(us)} of rows" if us else ""))
    )


def _format_changes(operation: Aggregate | Top) -> str:
    return format_changelog_suffix(
        operation.changelog_key, reads_retractions=operation.reads_retractions
    )


def describe_process_body(body: ProcessBody, late: str) -> Iterator[str]:
    """Yield the description of a user-defined class, and of its named outputs."""
    order = "event time" if body.uses_event_time else "arrival"
    yield f"process {body.file}:{body.name}, rows in the order of {order}{late}"
    for name, schema in body.outputs:
        yield f"output {name}: {', '.join(schema.names)}"


def _format_key(key: Iterable[ComputedColumn]) -> str:
    return ", ".join(e.name if e.text in ("", e.name) else f"{e.name} = {e.text}" for e in key)


def describe_window(window: Window) -> str:
    """Describe a window: how rows are grouped, when it fires, and where late rows go."""
    return ", ".join(_describe_window_clauses(window))


def _describe_window_clauses(window: Window) -> Iterator[str]:
    yield describe_window_shape(window.shape)
    if window.uses_processing_time:
        yield "by the wall clock"
    if window.lateness_us:
        yield f"lateness {format_microseconds(window.lateness_us)}"
    if window.late_to:
        yield f"late rows to {window.late_to}"
    if window.trigger:
        at_end = "" if window.fires_at_end else ", not at its end"
        yield f"fires {_describe_trigger(window.trigger)}{at_end}"
        if not window.keeps_rows:
            yield "and then discards the fired rows"
    elif not window.keeps_rows:
        yield "discards fired rows"
    if window.evict:
        yield f"sees {describe_evictor(window.evict)}"


def describe_window_shape(shape: WindowShape) -> str:
    """Describe the shape of a window; checkpoints store this text."""
    match shape:
        case Tumble(size, offset):
            return f"tumble {format_microseconds(size)}{_format_offset(offset)}"
        case Slide(size, every, offset):
            return (
                f"slide {format_microseconds(size)} every "
                f"{format_microseconds(every)}{_format_offset(offset)}"
            )
        case Cumulate(size, every, offset):
            return (
                f"cumulate {format_microseconds(size)} every "
                f"{format_microseconds(every)}{_format_offset(offset)}"
            )
        case Session(gap):
            return f"session {format_microseconds(gap)}"
        case Count(rows, every):
            return f"count {rows}" + (f" every {every}" if every != rows else "")
        case Global():
            return "global"


def _format_offset(offset_us: int) -> str:
    return f" offset {format_microseconds(offset_us)}" if offset_us else ""


def _describe_trigger(trigger: Trigger) -> str:
    if trigger.code is not None and trigger.input_columns is not None:
        return f"when {trigger.code} says so, by {', '.join(trigger.input_columns.names)}"
    if trigger.every_us is None:
        return f"every {trigger.count} rows"
    return f"every {format_microseconds(trigger.every_us)}" + (
        _BY_WALL_CLOCK if trigger.uses_processing_time else ""
    )


def describe_evictor(evict: Evict) -> str:
    """Describe the rows of a window that are used; checkpoints store this text."""
    if evict.code is not None and evict.input_columns is not None:
        return f"what {evict.code} keeps, by {', '.join(evict.input_columns.names)}"
    if evict.within_us is None:
        return f"the last {evict.last} rows"
    return f"the last {format_microseconds(evict.within_us)}"


def _format_ttl(ttl: Ttl) -> str:
    clock = _BY_WALL_CLOCK if ttl.uses_processing_time else ""
    return f"ttl {format_microseconds(ttl.after_us)}{clock}"


_BY_WALL_CLOCK = " by the wall clock"


def describe_state(summary: StepStateSummary, rows: Mapping[str, StoredRowSize]) -> Iterator[str]:
    """Yield the states of a step, with the sizes of their rows, and the subtasks that own them."""
    for state in summary.states:
        if state.shape == "entries":
            columns = ", ".join(name for name, _ in state.columns)
            yield f"state {state.name}, rows of no key{f': {columns}' if columns else ''}"
            continue
        by = ", ".join(
            (*(("time",) if state.shape == "runs" and state.is_by_time else ()), *summary.key)
        )
        shape = "runs" if state.shape == "runs" else "a table" if summary.key else "one row"
        columns = ", ".join(name for name, _ in state.columns)
        what = f": {columns}" if columns else ""
        yield f"state {state.name}, {shape}{' by ' if by else ''}{by}{what}"
        if state.sizes:
            yield f"  each row: {'; '.join(map(str, state.sizes))}"
        if state.name in rows:
            yield from (f"  {line}" for line in rows[state.name].describe())
    if all(state.shape == "entries" for state in summary.states):
        return
    yield (
        f"key groups {format_owners(summary.key_group_ranges)}"
        if summary.key
        else f"all of it in subtask {summary.unkeyed_owner}"
    )


def describe_join(join: nodes.Join) -> Iterator[str]:
    """Yield the clauses of a join, one per line."""
    if isinstance(join.matching, BroadcastMatch):
        yield f"from {join.left.name}"
        yield f"broadcast of {join.right.name}, {join.type} join on {join.text}"
        yield _describe_broadcast(join.matching)
        return
    if isinstance(join.matching, ConnectedMatch):
        if join.matching.is_broadcast:
            yield f"from {join.left.name}"
            yield f"broadcast of {join.right.name}, to on_rule"
        else:
            yield f"connect {join.left.name} and {join.right.name}"
        yield f"key {', '.join(each.name for each in join.left.key)}"
        yield from describe_process_body(join.matching.body, "")
        yield from _describe_late_rows(join)
        return
    yield f"{join.type} join of {join.left.name} and {join.right.name} on {join.text}"
    if isinstance(join.matching, WindowMatch):
        yield f"window {describe_window(join.matching.window)}"
    elif matching := describe_matching(join):
        yield matching
    yield from _describe_late_rows(join)


def _describe_late_rows(join: nodes.Join) -> Iterator[str]:
    for side, to in zip((join.left, join.right), join.late_to, strict=True):
        if to:
            yield f"late rows of {side.name} to {to}"


def describe_matching(join: nodes.Join) -> str:
    """Describe which rows with equal keys match; "" if all do."""
    match join.matching:
        case IntervalMatch(least_us=None):
            return "rows are stored forever"
        case IntervalMatch(least_us=int(least), most_us=int(most), uses_processing_time=processing):
            clock = " by the wall clock" if processing else ""
            sides = (
                f"{join.right.name} from {format_signed_duration(least)} to "
                f"{format_signed_duration(most)} later"
            )
            return f"{sides}{clock}"
        case AsOfMatch(ttl_us, sequence):
            limit = f", none older than {format_microseconds(ttl_us)}" if ttl_us is not None else ""
            order = f", at the same time by {sequence.text}" if sequence is not None else ""
            return f"as of: the latest {join.right.name} that is not later{order}{limit}"
        case TableMatch(ttl_us):
            apart = f", at most {format_microseconds(ttl_us)} apart" if ttl_us is not None else ""
            return f"rows that are there, of both inputs{apart}"
        case ChangelogMatch(ttl):
            expiry = ""
            if ttl is not None:
                clock = " by the wall clock" if ttl.uses_processing_time else ""
                expiry = f", ttl {format_microseconds(ttl.after_us)}{clock}"
            return f"current rows of both inputs{expiry}"
    return ""


def _describe_broadcast(matching: BroadcastMatch) -> str:
    """Describe the rows of the right input that a row is matched with."""
    which = "all"
    if matching.key is not None:
        names = ", ".join(each.text or each.name for each in matching.key)
        which = f"the latest of each {names}" if names else "the latest"
    if matching.ttl_us is not None:
        which += f", for {format_microseconds(matching.ttl_us)}"
    return f"{which}, {'at the time of the row' if matching.uses_event_time else 'by arrival'}"


def format_signed_duration(us: int) -> str:
    """Return a duration in microseconds in its largest unit, with a minus if it is negative."""
    return f"-{format_microseconds(-us)}" if us < 0 else format_microseconds(us)


MISS_ACTIONS = {"null": "null", "drop": "dropped", "fail": "a failure"}


def describe_lookup(lookup: Lookup) -> Iterator[str]:
    """Yield the key, the added columns, the calls and the cache of a lookup, one per line."""
    yield f"lookup in {lookup.connector} ({format_options(lookup.options)})"
    on = (f"{column.name} = {column.text or column.name}" for column in lookup.key)
    yield f"lookup on {', '.join(on)}, adds {', '.join(map(_format_added_column, lookup.columns))}"
    yield f"rows without a match: {MISS_ACTIONS.get(lookup.on_miss, f'to {lookup.miss_stream}')}"
    yield (
        f"calls: {lookup.concurrency} at a time, {_format_timeout(lookup)}, {_format_order(lookup)}"
    )
    if lookup.cache_rows:
        yield f"caches {lookup.cache_rows} keys for {format_microseconds(lookup.cache_us)}"


def _format_added_column(found: LookupColumn) -> str:
    name, type = found.field.name, found.field.type
    return f"{name} {type}" if name == found.column else f"{name} {type} from {found.column}"


def _format_timeout(lookup: Lookup) -> str:
    retries = f"{lookup.retries} retries" if lookup.retries != 1 else "1 retry"
    return f"{format_microseconds(lookup.timeout_us)} each, {retries}"


def _format_order(lookup: Lookup) -> str:
    return "in order" if lookup.keeps_order else "rows are emitted as calls return"


def get_part_kind(part: nodes.PlanPart) -> str:
    """Return the kind of a part: source, step or sink.

    >>> get_part_kind(Step("a", (), (), "fail", (), 1))
    'step'
    """
    match part:
        case Source():
            return "source"
        case Step():
            return "step"
        case Sink():
            return "sink"


def describe_connector(part: Source | Sink) -> str:
    """Return the connector and the format: `files, json`."""
    return part.connector if part.format is None else f"{part.connector}, {part.format}"


def describe_part(part: nodes.PlanPart) -> Iterator[str]:
    """Yield the clauses of a part, one per line, in the order in which they apply."""
    match part:
        case Source():
            yield from _describe_source(part)
        case Step():
            if get_two_input_operation(part) is None:
                yield f"from {', '.join(part.inputs)}"
            for operation in part.operations:
                yield from _describe_operation(operation)
            if part.on_error != "fail":
                yield f"rows that fail: {_describe_on_error(part.on_error)}"
        case Sink():
            yield f"from {part.input}"
            yield from _describe_options(part.options)


def _describe_source(source: Source) -> Iterator[str]:
    yield from _describe_options(source.options)
    table = source.table
    everything = (table.remove_metadata(source.schema) if table else source.schema).names
    if len(source.decoded_columns) < len(everything):
        read = ", ".join(source.decoded_columns)
        yield f"decodes {len(source.decoded_columns)} of {len(everything)} columns: {read}"
    if source.event_time:
        marks = f", watermark {format_options(source.watermark)}" if source.watermark else ""
        texts = [c.text for c in source.times if c.name == EVENT_TIME_VALUE]
        step = f" of {source.time_step}" if source.time_step else ""
        yield f"event time {texts[0] if texts else source.event_time}{step}{marks}"
    if table is not None:
        yield f"changes of a table by {', '.join(table.key)}"
    if source.on_error != "fail":
        yield f"bad records: {_describe_on_error(source.on_error)}"


def _describe_on_error(on_error: str) -> str:
    return "skipped and counted" if on_error == "skip" else f"to {on_error}"


def _describe_options(options: DocumentModel) -> Iterator[str]:
    text = format_options(options)
    if text:
        yield text


def _describe_operation(operation: Operation) -> Iterator[str]:
    match operation:
        case Explode(name, array, outer):
            kept = ", keeping empty ones" if outer else ""
            if operation.generator:
                names = ", ".join(column.name for column in operation.added_columns)
                yield f"explode {names} from {operation.generator}{kept}"
                return
            of = array.name if isinstance(array, ColumnReference) else operation.text
            yield f"explode {name} from {of} ({array.type}){kept}"
        case Filter(_, text):
            yield f"where {text}"
        case Project():
            yield f"{operation.clause} {operation.text}"
        case Map():
            yield f"map {operation.file}:{operation.function}, a call per {operation.mode}"
        case Lookup():
            yield from describe_lookup(operation)
        case ChangeColumn():
            yield f"a row for each change, with {CHANGE}"
        case WeightConversion():
            yield "each new row is added once"
        case RowTime(_, text):
            yield f"event time {text}"
        case Route(branches):
            for name, _, text in branches:
                yield f"route {name} where {text}"
            yield "route else"
        case Join():
            yield from describe_join(operation)
        case Aggregate() | Apply() | Top() | Dedup() | Over() | Process() | ChangelogConversion():
            yield from describe_keyed_operation(operation)
