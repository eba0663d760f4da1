"""The statements of a pipeline in SQL: `create view NAME as QUERY` and `insert into SINK QUERY`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from headrace.core.expressions.parsing.parser import RecursiveDescentParser
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.sql.foreign_clauses import STATEMENT_HINTS
from headrace.core.types.lazy_dataclass import dataclass

_HINT = "statements are create view NAME as select ... and insert into SINK select ..."
_HINTS = {
    "select": "insert into SINK before it writes its rows to a sink",
    "with": "write it behind insert into SINK, or create view NAME as",
    **STATEMENT_HINTS,
    **dict.fromkeys(("execute", "begin", "end"), "all insert into run together: remove it"),
}
_OVERWRITE_HINT = "write insert into; mode: overwrite of the sink replaces its files"
_TABLE_HINT = "tables are the sources and sinks of the pipeline; a query has a name as a view"
_ENDS = re.compile(
    r"""'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*` | --[^\n]* | /\*.*?\*/ | ;""",
    re.DOTALL | re.VERBOSE,
)
"""Semicolons, and all in which a semicolon is none."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement; its spans are those of its text."""

    is_view: bool
    """Whether it names the query as a view; otherwise it writes the rows to a sink."""
    name: str
    name_span: Span
    query_span: Span


def split_statements(text: str) -> Iterator[Span]:
    """Yield the places of statements, which end with semicolons.

    >>> [(each.start, each.end) for each in split_statements("select ';' -- ;\\n; select 1")]
    [(0, 16), (17, 26)]
    """
    start = 0
    for found in _ENDS.finditer(text):
        if found[0] == ";":
            yield Span(start, found.start())
            start = found.end()
    yield Span(start, len(text))


def parse_statement(text: str) -> Statement | None:
    """Return a statement, whose query is not parsed; None if there is none. Raises ExpressionError.

    >>> parse_statement("insert into out select * from t").name
    'out'
    """
    tokens = RecursiveDescentParser(text)
    if tokens.is_at_end:
        return None
    is_view = bool(tokens.accept("create"))
    if is_view:
        _skip_to_view(tokens)
        name = tokens.parse_name("the name of the view")
        tokens.expect("as")
    elif tokens.accept("insert"):
        if tokens.is_at("overwrite"):
            message = f'wanted "into", got {tokens.current_token}'
            raise ExpressionError(message, tokens.current_token.span, _OVERWRITE_HINT)
        tokens.expect("into")
        tokens.accept("table")
        name = tokens.parse_name("the name of a sink")
        _refuse_columns(tokens)
    else:
        token = tokens.current_token
        message = f'wanted "create view" or "insert into", got {token}'
        raise ExpressionError(message, token.span, _HINTS.get(token.text.lower(), _HINT))
    start = tokens.current_token.span.start
    return Statement(is_view, name.value, name.span, Span(start, len(text)))


def _refuse_columns(tokens: RecursiveDescentParser) -> None:
    """Refuse what Flink takes between the name of a sink and the query. Raises ExpressionError."""
    if tokens.is_at("partition"):
        message = "partition (...) is not supported"
        hint = "partition_by of the sink names the columns of folders"
        raise ExpressionError(message, tokens.current_token.span, hint)
    inner = tokens.next_token.text.lower()
    if tokens.is_at("(") and inner not in ("select", "with", "values", "("):
        message = "columns after the name of a sink are not supported"
        hint = "the columns of the query have their names, as in select a as b"
        raise ExpressionError(message, tokens.current_token.span, hint)


def _skip_to_view(tokens: RecursiveDescentParser) -> None:
    """Pass over what may be between `create` and the name of a view."""
    if tokens.accept("or"):
        tokens.expect("replace")
    tokens.accept("temporary", "temp")
    if not tokens.accept("view"):
        token = tokens.current_token
        message = f'wanted "view", got {token}'
        raise ExpressionError(message, token.span, _TABLE_HINT)
