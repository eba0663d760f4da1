"""The statements in Spark's own documentation of a function, and their parts.

A statement starts at `> ` and ends with a semicolon at the end of a line; its documented result
stands below and is not read. Only `SELECT list` and `SELECT list FROM VALUES rows AS name(columns)`
have parts: any other statement is a query and not a list of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

_STATEMENT = re.compile(r"^ *> (.*?); *$", re.MULTILINE | re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<text>[rR]?'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`)|(?P<word>\w+)|\S|\s+""",
    re.DOTALL,
)
_ALIAS = re.compile(r"\s+as\s+\w+$", re.IGNORECASE)
_TABLE = re.compile(r"VALUES\b.*\s\w+\s*\([\w\s,]*\)", re.IGNORECASE | re.DOTALL)
_QUERY_WORDS = frozenset(("where", "group by", "order", "over", "limit", "union", "having"))


@dataclass(frozen=True, slots=True)
class SelectStatement:
    """The expressions of a select list, and the text of the inline table that they read, or ""."""

    expressions: tuple[str, ...]
    table: str


def find_statements(documentation: str) -> list[str]:
    """Return the statements of a function's examples, each on one line."""
    return [re.sub(r"\s*\n\s*", " ", found) for found in _STATEMENT.findall(documentation)]


def parse_select(statement: str) -> SelectStatement | None:
    """Return the parts of a statement, or None for another kind of query."""
    head, _, rest = statement.partition(" ")
    if head.upper() != "SELECT" or _is_query(rest):
        return None
    parts, table = [""], ""
    for token, word, depth in _scan(rest):
        if table or (word.lower() == "from" and depth == 0):
            table += token
        elif token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    table = table[4:].strip()
    expressions = tuple(_ALIAS.sub("", part.strip()) for part in parts)
    if "*" in expressions or (table and not _TABLE.fullmatch(table)):
        return None
    return SelectStatement(expressions, table)


def _is_query(text: str) -> bool:
    """Whether the text after SELECT has a clause other than FROM, or another SELECT in it."""
    words = [(word.lower(), depth) for _, word, depth in _scan(text) if word]
    outside = [word for word, depth in words if depth == 0]
    pairs = {" ".join(pair) for pair in pairwise(outside)}
    return ("select" in (w for w, _ in words)) or bool(_QUERY_WORDS & (pairs | set(outside)))


def _scan(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield each token, the word that it is or "", and its depth in brackets."""
    depth = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        depth -= token in (")", "]")
        yield token, found["word"] or "", depth
        depth += token in ("(", "[")
