"""The distinct rows of a result: a `dedup` of facts, an aggregate of rows that change."""

from __future__ import annotations

from headrace.core.expressions.typed import Span
from headrace.core.pipeline.fields import Assignment
from headrace.core.pipeline.text import Text
from headrace.core.plan import nodes
from headrace.core.plan.sql.items import write_select
from headrace.core.plan.sql.rankings import make_dedup
from headrace.core.plan.sql.steps import Draft, StepWriter
from headrace.core.types.data_types import quote_name

Columns = list[tuple[str, Text, Span]]
"""The columns of a result: the name, the text and the place of each."""


def make_distinct(draft: Draft, columns: Columns, writer: StepWriter, place: Span) -> Columns:
    """Add the clauses that keep one of equal rows, and return the columns of the result."""
    texts, ttl = writer.texts, writer.find_key_ttl(draft.inputs)
    key = tuple(
        Assignment(texts.name(name, at), None if text == quote_name(name) else text)
        for name, text, at in columns
    )
    draft.places.update(dict.fromkeys(("dedup", "key", "aggregate"), place))
    if all(isinstance(each.kind, nodes.Append) for each in draft.inputs):
        draft.clauses["dedup"] = make_dedup(key, ttl)
        whole = [*draft.inputs[0].schema.names] == [name for name, _, _ in columns]
        if whole and all(each.expression is None for each in key):
            draft.clauses.pop("select", None)
        else:
            draft.clauses["select"] = write_select(columns, texts)
        return columns
    count = texts.name("count(*)", place)
    draft.clauses["key"] = key
    draft.clauses["aggregate"] = (Assignment(count, count),)
    if ttl is not None:
        draft.clauses["ttl"] = ttl
    columns = [(name, texts.name(quote_name(name), at), at) for name, _, at in columns]
    draft.clauses["select"] = write_select(columns, texts)
    return columns
