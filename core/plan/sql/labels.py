"""Names for the queries inside a query that have none: by what they read and do.

A name is a part of the state of a job, so it depends on neither the position of a query nor on
the queries beside it, as long as these differ in their tables or values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import sha256

from headrace.core.aggregates.canonical_text import canonical_text
from headrace.core.expressions.parsing.lexer import tokenize
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Literal,
    Member,
    Name,
    Star,
    SyntaxNode,
)
from headrace.core.expressions.typed import Span
from headrace.core.sql.syntax_tree import (
    Query,
    QueryBody,
    Select,
    SetOperation,
    find_subqueries,
    list_expressions,
    list_table_aliases,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

_DIGEST_LENGTH = 6
_WORDS = compile_pattern(r"\w+")


@dataclass(frozen=True, slots=True)
class QuerySummary:
    """The contents of a query, from coarse to fine."""

    base: str
    """Its name, where no other query has the same one."""
    clauses: str
    """Its tables and the clauses after them, as text; "" if it has tables only."""
    items: tuple[str, ...]
    """The columns of its result, as text."""


def label_queries(queries: Sequence[QuerySummary]) -> list[str]:
    """Return a name for each of the queries that stand beside one another.

    Queries of one base are told apart by their clauses, and else by the first column in which all
    of them differ; so a further column does not rename them. Equal queries have equal names.

    >>> plain, other = QuerySummary("t", "", ("a",)), QuerySummary("t", "where b", ("a",))
    >>> label_queries([other, plain]) == [*reversed(label_queries([plain, other]))]
    True
    >>> label_queries([plain, other])
    ['t', 't-419f5f']
    """
    labels = [each.base for each in queries]
    labels = _add_digests(labels, [each.clauses for each in queries])
    widths = [len(each.items) for each in queries]
    for at in range(min(widths, default=0)):
        texts = {(label, each.items[at]) for label, each in zip(labels, queries, strict=True)}
        if len(texts) == len(queries):
            return _add_digests(labels, [each.items[at] for each in queries])
    return _add_digests(labels, [" ".join(each.items) for each in queries])


def _add_digests(labels: Sequence[str], texts: Sequence[str]) -> list[str]:
    """Return the labels; those that several queries have are extended by a digest of the text of
    the query, if it is not empty."""
    counts = Counter(labels)
    made = []
    for label, text in zip(labels, texts, strict=True):
        digest = sha256(text.encode()).hexdigest()[:_DIGEST_LENGTH]
        made.append(f"{label}-{digest}" if text and counts[label] > 1 else label)
    return made


def summarize_operand(body: QueryBody, text: str) -> QuerySummary:
    """Return the summary of a query of a union, named after the tables that it reads; `text` is
    that of the whole query around it."""
    match body:
        case Query() if body.is_plain:
            return summarize_operand(body.body, text)
        case Query():
            base = summarize_operand(body.body, text).base
            return QuerySummary(base, _normalize(text, body.span.start, body.span.end), ())
        case SetOperation():
            clauses = _normalize(text, body.span.start, body.span.end)
            return QuerySummary(body.operator, clauses, ())
        case Select():
            base = "-".join(list_table_aliases(body.table)) or "query"
            return QuerySummary(base, _read_clauses(body, text), _read_items(body))
    return QuerySummary("query", _normalize(text, body.span.start, body.span.end), ())


def summarize_value(query: Query, text: str) -> QuerySummary:
    """Return the summary of a query as a value, named after its tables and its value."""
    made = summarize_operand(query, text)
    select = query.body
    if not isinstance(select, Select) or not select.items:
        return made
    value = select.items[0].expression
    return QuerySummary("-".join((made.base, *_name_value(value))), made.clauses, made.items)


def label_subqueries(select: Select, text: str) -> dict[Span, str]:
    """Return the names of the queries in the expressions of a `select`, by their places."""
    found = {
        each.span: summarize_value(each.query, text)
        for node in list_expressions(select)
        for each in find_subqueries(node)
    }
    return dict(zip(found, label_queries([*found.values()]), strict=True))


def _name_value(value: SyntaxNode) -> tuple[str, ...]:
    match value:
        case Literal():
            return ()
        case Name(name=name) | Member(name=name):
            return (name,)
        case CallNode(name=name, arguments=arguments) if all(
            isinstance(each, Name | Member | Star) for each in arguments
        ):
            return (name, *(each.name for each in arguments if isinstance(each, Name | Member)))
    words = _WORDS.findall(canonical_text(value))
    digest = sha256(canonical_text(value).encode()).hexdigest()[:_DIGEST_LENGTH]
    return (*words[:1], digest)


def _read_clauses(select: Select, text: str) -> str:
    """Return the tables and clauses of a `select` as text, if there are any but plain tables."""
    table = select.table
    end = select.span.end
    if not _normalize(text, table.span.end, end):
        return ""
    return _normalize(text, table.span.start, end)


def _read_items(select: Select) -> tuple[str, ...]:
    return tuple(canonical_text(item.expression) for item in select.items)


def _normalize(text: str, start: int, end: int) -> str:
    """Return a part of a query as its tokens, with a space between them."""
    return " ".join(token.text for token in tokenize(text[start:end])).strip()
