"""Errors and hints for clauses and statements of other dialects, and for misspelt words of clauses.

`foreign_syntax` of expressions has those for what stands inside of an expression.

Tests: tests/core/plan/sql/test_foreign_clauses.py.
"""

from __future__ import annotations

import re

from headrace.core.errors.problems import find_nearest_name, suggest_name
from headrace.core.expressions.parsing.token_stream import TokenStream
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.types.lazy_pattern import compile_pattern

CLAUSE_WORDS = frozenset(
    "from where group having qualify window order sort cluster distribute limit offset".split()
)
"""The words with which a clause begins."""
SET_WORDS = ("union", "intersect", "except", "minus")
JOIN_WORDS = frozenset("join inner left right full cross natural semi anti".split())

_LIMIT_HINT = "write order by ... limit 10"
_FOREIGN_CLAUSES = {
    **{"sort": "sort by", "cluster": "cluster by", "distribute": "distribute by"},
    **{"fetch": "fetch", "into": "into"},
}
_FOREIGN_HINTS = {
    **dict.fromkeys(("sort by", "cluster by", "distribute by"), "rows are distributed by the plan"),
    "fetch": _LIMIT_HINT,
    "into": "a sink writes the rows of a step",
}
_SCHEMA_HINT = "headrace schema --of FILE lists the columns of a file"
_READ_HINT = "a query only reads; tables change by what their sources read"
_MANY_HINT = "sql beside sources and sinks has many insert into, which run together"
MATCH_TABLE_HINT = "as in from (select * from a join b on a.id = b.id) match_recognize (...)"
STATEMENT_HINTS = {
    **dict.fromkeys(("describe", "desc", "show", "summarize"), _SCHEMA_HINT),
    "copy": "headrace query --to FILE writes the rows of a query",
    "explain": "headrace explain shows the steps of a pipeline",
    "from": "as in select * from orders",
    **dict.fromkeys(("update", "delete", "merge", "truncate", "drop", "alter"), _READ_HINT),
    **dict.fromkeys(("set", "reset"), "the settings of a pipeline are in settings"),
    "use": "a name in from is that of a source or a step",
    **dict.fromkeys(("add", "load", "call"), "Python functions and classes belong into YAML"),
    "stop": "headrace stop JOB takes a savepoint and stops the job",
    "compile": "the plan of a pipeline is what headrace explain shows",
    "analyze": "there are no statistics to collect",
}
"""The hints for statements of other shells, by their first word."""
_QUERY_HINTS = {
    **STATEMENT_HINTS,
    "insert": "sql beside sources and sinks has insert into SINK select ...",
    "create": "sql beside sources and sinks has create view NAME as select ...",
    **dict.fromkeys(("execute", "begin"), _MANY_HINT),
}

_MISSPELT_WORDS = (*CLAUSE_WORDS, *JOIN_WORDS, *SET_WORDS, "and", "or")
_NO_NAMES = frozenset(
    (*_MISSPELT_WORDS, *"select as by on using distinct all when then else not in is like".split())
)
"""Words after which another word is a name or a value, and begins no clause."""
_NO_TABLES = ("where", "having", "on", "using", "join", "select")
"""Words that name no table, unless they are in back quotes."""
_BARE_PATH = compile_pattern(r"\b(?:from|join)\s+((?:[\w.~-]*/|\w+-)[^\s,;()'\"`]*)", re.IGNORECASE)
"""The path of files without quotes, unless it is a name with an ending."""
_STAR_CLAUSES = ("except", "exclude", "replace", "rename")


def refuse_statement(tokens: TokenStream) -> None:
    """Refuse a text that begins as no query does. Raises ExpressionError."""
    token = tokens.current_token
    hint = _QUERY_HINTS.get(token.text.lower())
    if hint is None and token.kind == "word" and not tokens.is_at("select", "with", "values"):
        hint = suggest_name(token.text.lower(), ("select", "with", "values"))
    if hint:
        raise ExpressionError(f'wanted "select", got {token}', token.span, hint)


def refuse_clause(tokens: TokenStream) -> None:
    """Refuse a clause that stands between two others. Raises ExpressionError."""
    word, before = tokens.current_token, tokens.previous_token
    if before.text.lower() == "emit" and word.text.lower() in ("changes", "final", "after", "on"):
        hint = "a result is emitted when it changes, that of a window when it ends: remove it"
        raise ExpressionError("emit is not supported", before.span.extend_to(word.span), hint)
    if before.text.lower() == "top" and word.kind == "number":
        raise ExpressionError("top is not supported", before.span, _LIMIT_HINT)
    if tokens.is_at(*_FOREIGN_CLAUSES) and tokens.next_token.text not in (",", ")", ""):
        what = _FOREIGN_CLAUSES[word.text.lower()]
        hint = _FOREIGN_HINTS[what]
        if what == "fetch" and tokens.peek(2).kind == "number":
            hint = f"write limit {tokens.peek(2).text} in its place"
        raise ExpressionError(f"{what} is not supported", word.span, hint)


def is_at_fetch(tokens: TokenStream) -> bool:
    """Whether the current token begins `fetch first` or `fetch next`, and is no alias."""
    return tokens.is_at("fetch") and tokens.next_token.text.lower() in ("first", "next")


def refuse_distinct_on(tokens: TokenStream) -> None:
    """Refuse `distinct on (...)`, after `distinct`. Raises ExpressionError."""
    if tokens.is_at("on") and tokens.next_token.text == "(":
        span = tokens.previous_token.span.extend_to(tokens.current_token.span)
        hint = "as in qualify row_number() over (partition by customer order by at) = 1"
        raise ExpressionError("distinct on (...) is not supported", span, hint)


def refuse_star_clause(tokens: TokenStream) -> None:
    """Refuse what other dialects have after a star. Raises ExpressionError."""
    if tokens.is_at(*_STAR_CLAUSES) and tokens.next_token.text == "(":
        message = f"* {tokens.current_token.text.lower()} (...) is not supported"
        raise ExpressionError(message, tokens.current_token.span, "write the columns by name")


def refuse_bare_filter(tokens: TokenStream) -> None:
    """Refuse a `filter` without parentheses, after an aggregate. Raises ExpressionError."""
    if tokens.is_at("filter") and tokens.next_token.keyword == "where":
        message = f'wanted "(" after filter, got {tokens.next_token}'
        hint = "as in count(*) filter (where amount > 3)"
        raise ExpressionError(message, tokens.next_token.span, hint)


def refuse_clause_as_table(tokens: TokenStream) -> None:
    """Refuse the word of another clause, where a table is wanted. Raises ExpressionError."""
    token = tokens.current_token
    if not tokens.is_at(*_NO_TABLES) or tokens.next_token.text in ("", ")", ",", "."):
        return
    hint = "remove the comma before it" if tokens.previous_token.text == "," else ""
    raise ExpressionError(f"wanted the name of a table, got {token}", token.span, hint)


def find_bare_path(text: str, error: ExpressionError) -> ExpressionError | None:
    """Return the error of the path of files without quotes, if another error is inside of it."""
    for found in _BARE_PATH.finditer(text):
        if found.start(1) <= error.span.start < found.end(1):
            message = f"wanted the path of files in quotes, got {found[1]}"
            return ExpressionError(message, Span(*found.span(1)), f"write '{found[1]}'")
    return None


def find_misspelt_word(tokens: TokenStream) -> ExpressionError | None:
    """Return the error of a word that was meant to begin a clause, or to continue a condition.

    It is the token before the current one, which was taken for an alias, or the current one.
    """
    after = tokens.current_token
    for token, before in ((tokens.previous_token, tokens.peek(-2)), (after, tokens.previous_token)):
        ends_value = before.kind in ("quoted", "number", "string") or before.text in (")", "*", "]")
        is_name = before.kind == "word" and before.keyword not in _NO_NAMES
        if token.kind != "word" or not (ends_value or is_name) or token.keyword in _MISSPELT_WORDS:
            continue
        is_alias = token is not after and len(token.text) < 3
        if is_alias or (after.kind == "symbol" and after.text != "("):
            continue
        if near := find_nearest_name(token.keyword, _MISSPELT_WORDS, 0.65):
            message = f'wanted "{near}", got {token}'
            return ExpressionError(message, token.span, f'did you mean "{near}"?')
    return None


def find_clause_hint(tokens: TokenStream) -> str:
    """Return the hint for a token that does not continue a query; "" if there is none."""
    token, before = tokens.current_token, tokens.previous_token
    text = token.text.lower()
    if text == "," and tokens.peek(-2).text.lower() == "limit" and before.kind == "number":
        return f"the rows before come last: limit {tokens.next_token.text} offset {before.text}"
    if text in ("row", "rows") and tokens.peek(-2).text.lower() == "offset":
        return f"as in limit 10 offset {before.text}"
    if text == "time" and before.text.lower() == "at" and tokens.next_token.text.lower() == "zone":
        return "as in from_utc_timestamp(at, 'Europe/Oslo')"
    if text == "order" and tokens.next_token.text.lower() == "by":
        return "as in listagg(name, ',') within group (order by at)"
    if text == "select" and before.text.lower() == "as":
        return "as in with name as (select ...)"
    if text == "for":
        return _READ_HINT
    if text == "match_recognize":
        return MATCH_TABLE_HINT
    return ""
