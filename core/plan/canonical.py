"""The canonical text of a pipeline's clauses: the same for all ways of writing the same.

A checkpoint stores these texts, so that a changed pipeline is distinguished from one that is only
written differently: in spaces, the case of keywords, parentheses, aliases of a function, or `60s`
for `1m`. An expression is printed from its tree; a secret in it is masked. Changing a text that is
produced here makes existing checkpoints incompatible.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.aggregates.user_aggregates import select_user_calls
from headrace.core.expressions.functions import FUNCTIONS
from headrace.core.expressions.parsing import syntax_tree
from headrace.core.expressions.parsing.parser import parse_expression
from headrace.core.expressions.typed import ColumnReference, ExpressionError
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.formatting import format_options, format_signed_duration, format_value
from headrace.core.plan.nodes.matching import (
    AsOfMatch,
    BroadcastMatch,
    ChangelogMatch,
    ConnectedMatch,
    IntervalMatch,
    JoinMatching,
    RuleMatch,
    TableMatch,
    WindowMatch,
)
from headrace.core.plan.nodes.windows import Session, Window
from headrace.core.plan.over_reach import measure_reach
from headrace.core.plan.rankings import parse_ordering
from headrace.core.plan.window_descriptions import describe_evictor, describe_window_shape
from headrace.core.types.data_types import quote_name


def canonicalize(text: str) -> str:
    """Return an expression in canonical form.

    >>> canonicalize("UCASE( a )||'x'"), canonicalize("price*2 > (1)")
    ("(upper(a) || 'x')", '((price * 2) > 1)')
    """
    try:
        return canonical_text(_normalize(parse_expression(text)))
    except ExpressionError:  # a masked secret is not an expression
        return text


def _normalize(node: syntax_tree.SyntaxNode) -> syntax_tree.SyntaxNode:
    """Return the tree with each function under its main name."""
    match node:
        case syntax_tree.CallNode():
            row = FUNCTIONS.get(node.name)
            return replace(
                node,
                name=row.name if row else node.name,
                arguments=tuple(map(_normalize, node.arguments)),
                filter=_normalize(node.filter) if node.filter else None,
                within_group=tuple(
                    replace(item, expression=_normalize(item.expression))
                    for item in node.within_group
                ),
            )
        case syntax_tree.Member():
            return replace(node, base=_normalize(node.base))
        case syntax_tree.Cast():
            return replace(node, operand=_normalize(node.operand))
        case syntax_tree.Lambda():
            return replace(node, body=_normalize(node.body))
    return node


def column_text(column: nodes.ComputedColumn) -> str:
    """Return the canonical text of a column."""
    if column.text:
        return canonicalize(column.text)
    return (
        quote_name(column.value.name) if isinstance(column.value, ColumnReference) else column.name
    )


def aggregated_text(column: nodes.AggregatedColumn) -> str:
    """Return the canonical text of an aggregate; of a user-defined one, the name of its call."""
    users = select_user_calls(column.expression.calls)
    if users and MASK not in column.text:
        return users[0].name.removeprefix("__")
    return canonicalize(column.text)


def apply_text(operation: nodes.Apply) -> str:
    """Return the canonical text of a function over the rows of a window."""
    return f"apply {operation.code} to {', '.join(map(quote_name, operation.input_columns.names))}"


def window_text(window: Window) -> str:
    """Return the canonical text of a window: how rows are grouped, and what is stored of them.

    It includes the number of rows after which a window fires, because the state then counts up to
    that number; except for sessions, which always count their rows.
    """
    parts = [describe_window_shape(window.shape)]
    if window.uses_processing_time:
        parts.append("by the wall clock")
    if window.trigger and window.trigger.count and not isinstance(window.shape, Session):
        parts.append(f"fires every {window.trigger.count} rows")
    if window.trigger and window.trigger.code:
        timers = dict(window.trigger.timers)
        types = {name: f"timer{' by the wall clock' if of else ''}" for name, of in timers.items()}
        fields = window.trigger.state or ()
        state_text = ", ".join(f"{f.name} {types.get(f.name, f.type)}" for f in fields)
        parts.append(
            f"fires when {window.trigger.code} says so{', by ' if state_text else ''}{state_text}"
        )
    if not window.keeps_rows and (window.trigger or window.lateness_us):
        parts.append("forgets what it fired")
    if window.evict:
        parts.append(f"sees {describe_evictor(window.evict)}")
    return f"window {', '.join(parts)}"


def top_text(top: nodes.Top) -> str:
    """Return the canonical text of a `top`, without the changes that it reads."""
    ties = f", ties {top.ties}" if top.has_ties else ""
    return f"top {top.rows} by {', '.join(map(ranking_text, top.by))}{ties}"


def ranking_text(ranking: nodes.Ranking) -> str:
    """Return the canonical text of a ranking of `top`."""
    end = parse_ordering(ranking.text)[0]
    end_first = "desc" if ranking.descending else "asc"
    nulls = "last" if ranking.nulls_last else "first"
    return f"{canonicalize(ranking.text[:end])} {end_first} nulls {nulls}"


def dedup_text(operation: nodes.Dedup) -> str:
    """Return the canonical text of a dedup: which row of a key it keeps."""
    if operation.changes is not None:
        changes = operation.changes
        by = column_text(changes.sequence) if changes.sequence else changes.by
        return f"newest changes by {by}{', which orders rows' if changes.orders_rows else ''}"
    return f"dedup, keep {operation.keep}{' by event time' if operation.uses_event_time else ''}"


def over_text(operation: nodes.Over) -> str:
    """Return the canonical text of columns over ordered rows: their calls, each with its frame."""
    calls = {call.name: None for c in operation.columns for call in c.expression.calls}
    text = f"over {', '.join(name.removeprefix('__') for name in calls)}"
    reach = measure_reach(operation)
    if not (reach.rows_after and reach.ttl_us):
        return text
    # Rows that wait are filed under the time at which their key ends.
    return f"{text}, keys end after {reach.ttl_us} us"


def match_text(operation: nodes.Match) -> str:
    """Return the canonical text of a pattern: all that the state of its runs depends on."""
    conditions = (f"{c.variable} as {canonicalize(c.text)}" for c in operation.conditions)
    within = "" if operation.within_us is None else f", within {operation.within_us} us"
    defined = "".join(f", {text}" for text in conditions)
    return f"match {operation.pattern}{within}, after {operation.after_match}{defined}"


def conversion_text(operation: nodes.ChangelogConversion) -> str:
    """Return the canonical text of a conversion: what it makes of changes."""
    form = f", written as {operation.form}" if operation.form else ""
    return f"changes as {operation.output}{form}"


def join_text(join: nodes.Join) -> str:
    """Return the canonical text of a join: which rows match, without the text of its window."""
    if isinstance(join.matching, ConnectedMatch):
        clause = "broadcast" if join.matching.is_broadcast else "connect"
        return f"{clause}, {process_text(join.matching.body)}"
    if isinstance(join.matching, RuleMatch):
        return "match, patterns from rules"
    near = _matching_text(join.matching)
    return f"{join.type} join on {canonicalize(join.text)}{f', {near}' if near else ''}"


def _matching_text(matching: JoinMatching) -> str:
    match matching:
        case WindowMatch():
            return ""
        case IntervalMatch(least_us=int(least), most_us=int(most), uses_processing_time=processing):
            clock = " by the wall clock" if processing else ""
            return (
                f"within {format_signed_duration(least)} and {format_signed_duration(most)}{clock}"
            )
        case IntervalMatch():
            return "for ever"
        case AsOfMatch(sequence=sequence):
            return f"as of{f', changes by {column_text(sequence)}' if sequence else ''}"
        case ChangelogMatch(_, keys):
            return f"changes of {' and '.join(', '.join(map(quote_name, key)) for key in keys)}"
        case TableMatch(ttl_us):
            within = "" if ttl_us is None else f" within {format_signed_duration(ttl_us)}"
            return f"current rows{within}"
        case BroadcastMatch(key, _, in_time):
            of = "" if key is None else f" of {', '.join(map(column_text, key))}"
            return f"all that hold{of}{'' if in_time else ', as they come'}"
    raise AssertionError(matching)


def location_text(part: nodes.PlanPart) -> str:
    """Return the location and format of a source or sink, to which its stored positions refer."""
    if isinstance(part, nodes.Step):
        return ""
    keys = part.options.fields_by_key()
    values = (getattr(part.options, keys[key]) for key in part.options.origin)
    where = (format_value(value) for value in values if value is not None)
    said_so = " ".join([part.connector, *map(posixpath.normpath, where)])
    return f"{said_so}, {part.format}" if part.format else said_so


def list_clause_texts(part: nodes.PlanPart) -> tuple[list[str], list[str]]:
    """Return the clauses of a part: those before its stateful operation, and those from it on."""
    if isinstance(part, nodes.Source):
        return list(_source_texts(part)), []
    if isinstance(part, nodes.Sink):
        return [], []
    before, then = [f"from {', '.join(part.inputs)}"], list[str]()
    for operation in part.operations:
        is_stateful = isinstance(operation, nodes.KeyedOperation | nodes.TwoSided | nodes.Loop)
        into = then if then or is_stateful else before
        into.extend(_operation_texts(operation))
    return before, then


def _source_texts(source: nodes.Source) -> Iterator[str]:
    yield f"{source.connector} {format_options(source.options)}".strip()
    if source.format:
        options = format_options(source.format.options) if source.format.options else ""
        yield f"format {source.format} {options}".strip()
    table = source.table
    for column in table.remove_metadata(source.schema) if table else source.schema:
        yield (
            f"column {quote_name(column.name)} "
            f"{column.type}{'' if column.nullable else ' not null'}"
        )
    if source.event_time:
        marks = f", watermark {format_options(source.watermark)}" if source.watermark else ""
        yield f"event time {_event_time_text(source)}{marks}"
    if source.on_error != "fail":
        yield f"on_error {source.on_error}"


def _event_time_text(source: nodes.Source) -> str:
    texts = [canonicalize(c.text) for c in source.times if c.name == nodes.EVENT_TIME_VALUE]
    step = f" of {quote_name(source.time_step)}" if source.time_step else ""
    return f"{texts[0] if texts else source.event_time}{step}"


def _operation_texts(operation: nodes.Operation) -> Iterator[str]:
    match operation:
        case nodes.Explode(name, array, outer):
            if operation.generator:
                names = ", ".join(quote_name(column.name) for column in operation.added_columns)
                yield f"explode {names} from {canonicalize(operation.generator)}"
                return
            of = quote_name(array.name) if isinstance(array, ColumnReference) else ""
            of = of or canonicalize(operation.text)
            yield f"explode {quote_name(name)} from {of}{' outer' if outer else ''}"
        case nodes.Filter(_, text):
            yield f"where {canonicalize(text)}"
        case nodes.Project():
            yield from (f"{quote_name(c.name)} = {column_text(c)}" for c in operation.columns)
        case nodes.Map():
            function = f"{operation.file}:{operation.function}"
            returns = ", ".join(f"{f.name} {f.type}" for f in operation.returns)
            yield f"map {function} by {operation.mode}, returns {returns}"
        case nodes.Lookup():
            yield from _lookup_texts(operation)
        case nodes.WeightConversion():
            return
        case nodes.ChangeColumn():
            yield "changes as rows"
        case nodes.RowTime(_, text):
            yield f"event time {canonicalize(text)}"
        case nodes.Route(branches):
            yield from (f"route {name} where {canonicalize(text)}" for name, _, text in branches)
        case nodes.Loop(until=until, text=text):
            yield f"iterate, feedback {operation.feedback}"
            if operation.table is not None:
                yield f"rounds {operation.table.count}"
                if (delta := operation.table.delta) is not None:
                    key = ", ".join(map(quote_name, operation.table.key))
                    yield f"solution {delta.solution} by {key}, workset {delta.workset}"
                yield from (f"until {canonicalize(text)}",) if text else ()
            yield from () if until is None else (f"until {canonicalize(text)}",)
            yield from (
                () if operation.max_rounds is None else (f"max_rounds {operation.max_rounds}",)
            )
        case nodes.Join():
            yield from _key_texts(operation)
            if isinstance(operation.matching, WindowMatch):
                yield window_text(operation.matching.window)
            yield join_text(operation)
            if isinstance(operation.matching, ConnectedMatch):
                yield from _body_texts(operation.matching.body)
            if isinstance(operation.matching, RuleMatch):
                yield from _match_column_texts(operation.matching.match)
        case (
            nodes.Aggregate()
            | nodes.Apply()
            | nodes.Top()
            | nodes.Dedup()
            | nodes.Over()
            | nodes.Match()
            | nodes.Process()
            | nodes.ChangelogConversion()
        ):
            yield from _keyed_texts(operation)


def _key_texts(join: nodes.Join) -> Iterator[str]:
    """Yield the keys of both inputs, or of the only one that has a key."""
    left, right = (list(map(column_text, key)) for key in join.keys)
    if not right:
        yield from (f"key {text}" for text in left)
        return
    yield from (f"key {one} = {other}" for one, other in zip(left, right, strict=True))


def _lookup_texts(lookup: nodes.Lookup) -> Iterator[str]:
    yield f"lookup in {lookup.connector} {format_options(lookup.options)}"
    yield from (
        f"lookup {quote_name(column.name)} = {column_text(column)}" for column in lookup.key
    )
    for found in lookup.columns:
        yield f"{quote_name(found.field.name)} {found.field.type} from {quote_name(found.column)}"
    yield f"on_miss {lookup.miss_stream or lookup.on_miss}"


def process_text(body: nodes.ProcessBody) -> str:
    """Return the canonical text of the order in which a user-defined class receives rows."""
    return f"process in the order of {'event time' if body.uses_event_time else 'arrival'}"


def _body_texts(body: nodes.ProcessBody) -> Iterator[str]:
    yield f"{process_text(body)}: {body.file}:{body.name}"
    for name, schema in (("", body.returns), *body.outputs):
        columns = ", ".join(f"{quote_name(field.name)} {field.type}" for field in schema)
        yield f"returns {columns}" if not name else f"output {name}: {columns}"


def _match_column_texts(match: nodes.Match) -> Iterator[str]:
    yield from (f"{quote_name(c.name)} = {canonicalize(c.text)}" for c in match.emit)
    if match.all_rows:
        yield "all_rows"


def _keyed_texts(operation: nodes.KeyedOperation) -> Iterator[str]:
    yield from (
        f"key {quote_name(column.name)} = {column_text(column)}" for column in operation.key
    )
    window = None if isinstance(operation, nodes.Dedup) else operation.window
    if window:
        yield window_text(window)
    match operation:
        case nodes.Top():
            yield top_text(operation)
        case nodes.Dedup():
            yield dedup_text(operation)
        case nodes.Over(columns=over_columns):
            yield over_text(operation)
            yield from (f"{quote_name(c.name)} = {c.text}" for c in over_columns)
        case nodes.Match():
            yield match_text(operation)
            yield from _match_column_texts(operation)
        case nodes.ChangelogConversion():
            yield conversion_text(operation)
        case nodes.Process(body=body):
            yield from _body_texts(body)
        case nodes.Apply():
            returns = ", ".join(f"{f.name} {f.type}" for f in operation.returns)
            yield f"{apply_text(operation)}, returns {returns}"
        case nodes.Aggregate(columns=columns, having=having):
            yield from (f"{quote_name(c.name)} = {aggregated_text(c)}" for c in columns)
            if operation.emits_empty:
                yield "emit_empty"
            if having:
                yield f"having {canonicalize(having.text)}"
