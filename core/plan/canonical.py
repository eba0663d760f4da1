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

from headrace.core.aggregates.identity import identity
from headrace.core.aggregates.users import of_users
from headrace.core.expressions import syntax
from headrace.core.expressions.functions import TABLE
from headrace.core.expressions.parser import parse
from headrace.core.expressions.typed import Column, ExpressionError
from headrace.core.pipeline.text import MASK
from headrace.core.plan import nodes
from headrace.core.plan.describe_joins import signed
from headrace.core.plan.describe_keyed import evict_said, shape_said
from headrace.core.plan.matching import (
    AsOf,
    Changing,
    Connected,
    Everywhere,
    Matching,
    SameWindow,
    Within,
)
from headrace.core.plan.rankings import ordering
from headrace.core.plan.windows import Session, Window
from headrace.core.plan.wording import said, value_said
from headrace.core.types import quoted


def canonical(text: str) -> str:
    """Return an expression in canonical form.

    >>> canonical("UCASE( a )||'x'"), canonical("price*2 > (1)")
    ("(upper(a) || 'x')", '((price * 2) > 1)')
    """
    try:
        return identity(_plain(parse(text)))
    except ExpressionError:  # a masked secret is not an expression
        return text


def _plain(node: syntax.Node) -> syntax.Node:
    """Return the tree with each function under its main name."""
    match node:
        case syntax.Call():
            row = TABLE.get(node.name)
            return replace(
                node,
                name=row.name if row else node.name,
                arguments=tuple(map(_plain, node.arguments)),
                filter=_plain(node.filter) if node.filter else None,
            )
        case syntax.Member():
            return replace(node, base=_plain(node.base))
        case syntax.Cast():
            return replace(node, operand=_plain(node.operand))
        case syntax.Lambda():
            return replace(node, body=_plain(node.body))
    return node


def column_text(column: nodes.Computed) -> str:
    """Return the canonical text of a column."""
    if column.text:
        return canonical(column.text)
    return quoted(column.value.name) if isinstance(column.value, Column) else column.name


def aggregated_text(column: nodes.Aggregated) -> str:
    """Return the canonical text of an aggregate; of a user-defined one, the name of its call."""
    users = of_users(column.expression.calls)
    if users and MASK not in column.text:
        return users[0].name.removeprefix("__")
    return canonical(column.text)


def apply_text(operation: nodes.Apply) -> str:
    """Return the canonical text of a function over the rows of a window."""
    return f"apply {operation.code} to {', '.join(map(quoted, operation.of.names))}"


def window_text(window: Window) -> str:
    """Return the canonical text of a window: how rows are grouped, and what is stored of them.

    It includes the number of rows after which a window fires, because the state then counts up to
    that number; except for sessions, which always count their rows.
    """
    parts = [shape_said(window.shape)]
    if window.processing:
        parts.append("by the wall clock")
    if window.trigger and window.trigger.count and not isinstance(window.shape, Session):
        parts.append(f"fires every {window.trigger.count} rows")
    if window.trigger and window.trigger.code:
        kept = ", ".join(f"{f.name} {f.type}" for f in window.trigger.state or ())
        parts.append(f"fires when {window.trigger.code} says so{', by ' if kept else ''}{kept}")
    if not window.accumulate and (window.trigger or window.lateness_us):
        parts.append("forgets what it fired")
    if window.evict:
        parts.append(f"sees {evict_said(window.evict)}")
    return f"window {', '.join(parts)}"


def ranking_text(ranking: nodes.Ranking) -> str:
    """Return the canonical text of a ranking of `top`."""
    end = ordering(ranking.text)[0]
    end_first = "desc" if ranking.descending else "asc"
    nulls = "last" if ranking.nulls_last else "first"
    return f"{canonical(ranking.text[:end])} {end_first} nulls {nulls}"


def dedup_text(operation: nodes.Dedup) -> str:
    """Return the canonical text of a dedup: which row of a key it keeps."""
    return f"dedup, keep {operation.keep}{' by event time' if operation.in_time else ''}"


def join_text(join: nodes.Join) -> str:
    """Return the canonical text of a join: which rows match, without the text of its window."""
    if isinstance(join.matching, Connected):
        clause = "broadcast" if join.matching.everywhere else "connect"
        return f"{clause}, {process_text(join.matching.body)}"
    near = _matching(join.matching)
    return f"{join.type} join on {canonical(join.text)}{f', {near}' if near else ''}"


def _matching(matching: Matching) -> str:
    match matching:
        case SameWindow():
            return ""
        case Within(least_us=int(least), most_us=int(most), processing=processing):
            clock = " by the wall clock" if processing else ""
            return f"within {signed(least)} and {signed(most)}{clock}"
        case Within():
            return "for ever"
        case AsOf():
            return "as of"
        case Changing(_, keys):
            return f"changes of {' and '.join(', '.join(map(quoted, key)) for key in keys)}"
        case Everywhere(key, _, in_time):
            of = "" if key is None else f" of {', '.join(map(column_text, key))}"
            return f"all that hold{of}{'' if in_time else ', as they come'}"
    raise AssertionError(matching)


def origin(part: nodes.PlanPart) -> str:
    """Return the location and format of a source or sink, to which its stored positions refer."""
    if isinstance(part, nodes.Step):
        return ""
    keys = part.options.written()
    values = (getattr(part.options, keys[key]) for key in part.options.origin)
    where = (value_said(value) for value in values if value is not None)
    said_so = " ".join([part.connector, *map(posixpath.normpath, where)])
    return f"{said_so}, {part.format}" if part.format else said_so


def clauses(part: nodes.PlanPart) -> tuple[list[str], list[str]]:
    """Return the clauses of a part: those before its stateful operation, and those from it on."""
    if isinstance(part, nodes.Source):
        return list(_source(part)), []
    if isinstance(part, nodes.Sink):
        return [], []
    before, then = [f"from {', '.join(part.inputs)}"], list[str]()
    for operation in part.operations:
        into = then if then or isinstance(operation, nodes.Keyed | nodes.TwoSided) else before
        into.extend(_operation(operation))
    return before, then


def _source(source: nodes.Source) -> Iterator[str]:
    yield f"{source.connector} {said(source.options)}".strip()
    if source.format:
        options = said(source.format.options) if source.format.options else ""
        yield f"format {source.format} {options}".strip()
    for column in source.schema:
        yield f"column {quoted(column.name)} {column.type}{'' if column.nullable else ' not null'}"
    if source.event_time:
        marks = f", watermark {said(source.watermark)}" if source.watermark else ""
        yield f"event time {source.event_time}{marks}"
    if source.on_error != "fail":
        yield f"on_error {source.on_error}"


def _operation(operation: nodes.Operation) -> Iterator[str]:
    match operation:
        case nodes.Explode(name, array, outer):
            of = array.name if isinstance(array, Column) else ""
            yield f"explode {quoted(name)} from {quoted(of)}{' outer' if outer else ''}"
        case nodes.Filter(_, text):
            yield f"where {canonical(text)}"
        case nodes.Project():
            yield from (f"{quoted(c.name)} = {column_text(c)}" for c in operation.columns)
        case nodes.Map():
            function = f"{operation.file}:{operation.function}"
            returns = ", ".join(f"{f.name} {f.type}" for f in operation.returns)
            yield f"map {function} by {operation.mode}, returns {returns}"
        case nodes.Lookup():
            yield from _lookup(operation)
        case nodes.Route(branches):
            yield from (f"route {name} where {canonical(text)}" for name, _, text in branches)
        case nodes.Join():
            yield from _keys(operation)
            if isinstance(operation.matching, SameWindow):
                yield window_text(operation.matching.window)
            yield join_text(operation)
            if isinstance(operation.matching, Connected):
                yield from _body(operation.matching.body)
        case nodes.Aggregate() | nodes.Apply() | nodes.Top() | nodes.Dedup() | nodes.Process():
            yield from _keyed(operation)


def _keys(join: nodes.Join) -> Iterator[str]:
    """Yield the keys of both inputs, or of the only one that has a key."""
    left, right = (list(map(column_text, key)) for key in join.keys)
    if not right:
        yield from (f"key {text}" for text in left)
        return
    yield from (f"key {one} = {other}" for one, other in zip(left, right, strict=True))


def _lookup(lookup: nodes.Lookup) -> Iterator[str]:
    yield f"lookup in {lookup.connector} {said(lookup.options)}"
    yield from (f"lookup {quoted(column.name)} = {column_text(column)}" for column in lookup.on)
    for found in lookup.add:
        yield f"{quoted(found.field.name)} {found.field.type} from {quoted(found.column)}"
    yield f"on_miss {lookup.missed or lookup.on_miss}"


def process_text(body: nodes.Body) -> str:
    """Return the canonical text of the order in which a user-defined class receives rows."""
    return f"process in the order of {'event time' if body.in_time else 'arrival'}"


def _body(body: nodes.Body) -> Iterator[str]:
    yield f"{process_text(body)}: {body.file}:{body.name}"
    for name, schema in (("", body.returns), *body.outputs):
        columns = ", ".join(f"{quoted(field.name)} {field.type}" for field in schema)
        yield f"returns {columns}" if not name else f"output {name}: {columns}"


def _keyed(operation: nodes.Keyed) -> Iterator[str]:
    yield from (f"key {quoted(column.name)} = {column_text(column)}" for column in operation.key)
    window = None if isinstance(operation, nodes.Dedup) else operation.window
    if window:
        yield window_text(window)
    match operation:
        case nodes.Top(rows=rows, by=by):
            yield f"top {rows} by {', '.join(map(ranking_text, by))}"
        case nodes.Dedup():
            yield dedup_text(operation)
        case nodes.Process(body=body):
            yield from _body(body)
        case nodes.Apply():
            returns = ", ".join(f"{f.name} {f.type}" for f in operation.returns)
            yield f"{apply_text(operation)}, returns {returns}"
        case nodes.Aggregate(columns=columns, having=having):
            yield from (f"{quoted(c.name)} = {aggregated_text(c)}" for c in columns)
            if having:
                yield f"having {canonical(having.text)}"
