"""Descriptions of the parts of a plan in words: one line for each clause.

`explain` arranges these lines; this module does not depend on the output format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.core.errors.rendering import format_size
from headrace.core.expressions.typed import ColumnReference
from headrace.core.patterns.runs import SkipRule
from headrace.core.pipeline.document_model import DocumentModel
from headrace.core.plan import nodes
from headrace.core.plan.formatting import (
    format_changelog_suffix,
    format_microseconds,
    format_options,
    format_signed_duration,
)
from headrace.core.plan.join_descriptions import (
    describe_join,
    describe_lookup,
    describe_match_outputs,
    describe_process_body,
)
from headrace.core.plan.layout import get_two_input_operation
from headrace.core.plan.nodes import (
    EVENT_TIME_VALUE,
    ROUNDS_COLUMN,
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
    Loop,
    Map,
    Match,
    Operation,
    Over,
    Process,
    Project,
    Route,
    RowTime,
    Sink,
    Source,
    Step,
    StoredRows,
    Top,
    WeightConversion,
)
from headrace.core.plan.nodes.windows import (
    Ttl,
)
from headrace.core.plan.over_reach import measure_reach
from headrace.core.plan.states import StepStateSummary, format_owners
from headrace.core.plan.stored_rows import StoredRowSize
from headrace.core.plan.window_descriptions import BY_WALL_CLOCK, describe_window
from headrace.core.types.change_columns import CHANGE, ChangeForm

_CHANGE_FORMS: Mapping[ChangeForm, str] = {
    "full": "rows with _change and _sequence",
    "debezium": "Debezium envelopes",
}


_SKIPS: Mapping[SkipRule, str] = {
    "past_last": "from the row after its last one",
    "next": "from the row after its first one",
    "first": "from the first row of {}",
    "last": "from the last row of {}",
    "none": "all matches, whatever rows they share",
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
        case Match():
            yield from _describe_match(operation)
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


def _describe_match(match: Match) -> Iterator[str]:
    """Yield the pattern of a match, the conditions of its variables, and its columns."""
    yield f"key {_format_key(match.key)}" if match.key else "no key: one group of all rows"
    within = "" if match.within_us is None else f" within {format_microseconds(match.within_us)}"
    late = f", late rows to {match.late_to}" if match.late_to else ""
    yield f"match {match.pattern}{within}, by event time{late}"
    for name in match.pattern.names:
        condition = match.get_condition(name)
        yield f"  {name}: {'any row' if condition is None else condition.text}"
    yield f"after a match: {_SKIPS[match.after_match.rule].format(match.after_match.variable)}"
    yield from describe_match_outputs(match)


def _format_reach(rows: int, us: int) -> str:
    counted = f"{rows} row{'s' if rows > 1 else ''}" if rows else ""
    return " and ".join(
        filter(None, (counted, f"{format_signed_duration(us)} of rows" if us else ""))
    )


def _format_changes(operation: Aggregate | Top) -> str:
    return format_changelog_suffix(
        operation.changelog_key, reads_retractions=operation.reads_retractions
    )


def _format_key(key: Iterable[ComputedColumn]) -> str:
    return ", ".join(e.name if e.text in ("", e.name) else f"{e.name} = {e.text}" for e in key)


def _format_ttl(ttl: Ttl) -> str:
    clock = BY_WALL_CLOCK if ttl.uses_processing_time else ""
    return f"ttl {format_microseconds(ttl.after_us)}{clock}"


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
        if state.name in rows:
            yield from (f"  {line}" for line in rows[state.name].describe())
        if state.sizes:
            what = "and partial results" if state.name in rows else "each row"
            yield f"  {what}: {'; '.join(map(str, state.sizes))}"
    if all(state.shape == "entries" for state in summary.states):
        return
    yield (
        f"key groups {format_owners(summary.key_group_ranges)}"
        if summary.key
        else f"all of it in subtask {summary.unkeyed_owner}"
    )


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


def _describe_loop(loop: Loop) -> Iterator[str]:
    """Yield the clauses of the head of a loop."""
    if loop.table is not None:
        does = "is the table of the next round"
        if loop.table.delta is not None:
            does = f"replaces rows of the solution by {', '.join(loop.table.key)}"
        yield f"{loop.feedback} {does}, {loop.table.count} rounds at most"
        table = "table" if loop.table.delta is None else "work set"
        sent = f"the whole {table}" if loop.table.sends_tables else "what has changed"
        yield f"sends {sent} in each round"
        if loop.text:
            yield f"no round begins when {loop.text}"
        yield f"its tables have at most {format_size(loop.max_bytes)} in memory"
        return
    yield f"rows of {loop.feedback} come back"
    if loop.text:
        yield f"a row leaves when {loop.text}"
    if loop.has_rounds:
        yield f"{ROUNDS_COLUMN} counts how often a row has come back"
    if loop.max_rounds is not None:
        yield f"a row that has come back {loop.max_rounds} times goes to over"
    yield f"a subtask holds at most {format_size(loop.max_bytes)} of rows that came back"
    if not loop.passes_watermarks:
        yield "event time passes when the loop is empty"


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
        case WeightConversion(stored=StoredRows(inputs)):
            yield f"stores the rows of {', '.join(sorted(inputs))}, and adds them in each round"
        case WeightConversion():
            yield "each new row is added once"
        case RowTime(_, text):
            yield f"event time {text}"
        case Route(branches):
            for name, _, text in branches:
                yield f"route {name} where {text}"
            yield "route else"
        case Loop():
            yield from _describe_loop(operation)
        case Join():
            yield from describe_join(operation)
        case Aggregate() | Apply() | Top() | Dedup() | Over() | Match() | Process():
            yield from describe_keyed_operation(operation)
        case ChangelogConversion():
            yield from describe_keyed_operation(operation)
