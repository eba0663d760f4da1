"""Parser of queries: `select` over one table, with Spark's clauses, by the parser of expressions.

select [distinct] items [from table [alias]] [where condition] [group by expressions]
[having condition] [order by items] [limit number] [offset number]
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.expressions.parsing.parser import RecursiveDescentParser
from headrace.core.expressions.parsing.special_forms import parse_sort_items
from headrace.core.expressions.parsing.syntax_tree import (
    Member,
    Name,
    SortItem,
    Star,
    SyntaxNode,
)
from headrace.core.expressions.typed import ExpressionError

WAY_OUT = "a query reads one table: write it with --format parquet, and use DuckDB on the file"
_GROUPINGS = ("rollup", "cube", "grouping")
_CLAUSES = frozenset("from where group having order limit offset".split())
_UNSUPPORTED = {
    **dict.fromkeys(("join", "inner", "left", "right", "full", "cross", "natural"), "a join"),
    **dict.fromkeys(("semi", "anti", ","), "a join"),
    **dict.fromkeys(("union", "intersect", "except", "minus"), "a union of queries"),
    **{"lateral": "lateral view", "pivot": "pivot", "unpivot": "unpivot", "qualify": "qualify"},
    **{"tablesample": "tablesample", "window": "window", "with": "with", "sort": "sort by"},
    **{"cluster": "cluster by", "distribute": "distribute by", "values": "values"},
}


@dataclass(frozen=True, slots=True)
class SelectItem:
    """A column of the result; `expression` is a Star for all columns of the table."""

    expression: SyntaxNode
    name: str
    """The alias, or else the text as written; of a Star the table before it, or nothing."""


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """A query as written."""

    items: tuple[SelectItem, ...]
    table: Name | None
    alias: str
    """The name that may stand before columns."""
    where: SyntaxNode | None
    group_by: tuple[SyntaxNode, ...]
    having: SyntaxNode | None
    order_by: tuple[SortItem, ...]
    limit: int | None
    offset: int
    is_distinct: bool


def parse_query(text: str) -> SelectQuery:
    """Return the query that a text says, or raise an ExpressionError.

    >>> parse_query("select a, b + 1 from t order by 2 limit 3").items[1].name
    'b + 1'
    """
    return _QueryParser(text.rstrip().removesuffix(";")).parse_query()


class _QueryParser(RecursiveDescentParser):
    """A parser of queries; the expressions in them are its base's."""

    def parse_query(self) -> SelectQuery:
        self._refuse_unsupported()
        self._refuse_nested_queries()
        self.expect("select")
        is_distinct = bool(self.accept("distinct"))
        items = self._parse_items()
        table, alias = self._parse_table() if self.accept("from") else (None, "")
        where = self.parse_expression() if self.accept("where") else None
        group_by = self._parse_group_by()
        having = self.parse_expression() if self.accept("having") else None
        order_by = parse_sort_items(self) if self._accept_by("order") else ()
        limit = self._parse_count() if self.accept("limit") and not self.accept("all") else None
        offset = self._parse_count() if self.accept("offset") else 0
        if not self.is_at_end:
            self._refuse_unsupported()
            raise self.unexpected_token_error("the end of the query")
        return SelectQuery(
            items, table, alias, where, group_by, having, order_by, limit, offset, is_distinct
        )

    def _refuse_nested_queries(self) -> None:
        """Refuse what the parser of expressions refuses with the hints of pipelines."""
        ahead = 1
        while self.peek(ahead).kind != "end":
            before, token, after = (self.peek(ahead + step) for step in (-1, 0, 1))
            word = token.text.lower() if token.kind == "word" else ""
            if word == "select" and before.text == "(":
                message = "a query inside a query is not supported"
                raise ExpressionError(message, token.span, WAY_OUT)
            if word == "over" and before.text == ")" and after.text == "(":
                raise ExpressionError("window functions are not supported", token.span, WAY_OUT)
            ahead += 1

    def _refuse_unsupported(self) -> None:
        """Refuse a clause of Spark's queries by its name."""
        if self.is_at(*_UNSUPPORTED):
            what = _UNSUPPORTED[self.current_token.text.lower()]
            raise ExpressionError(f"{what} is not supported", self.current_token.span, WAY_OUT)

    def _parse_items(self) -> tuple[SelectItem, ...]:
        items = [self._parse_item()]
        while self.accept(","):
            items.append(self._parse_item())
        return tuple(items)

    def _parse_item(self) -> SelectItem:
        if self.is_at(*_CLAUSES) or self.is_at_end:
            raise self.unexpected_token_error("a column of the result")
        first = self.current_token
        if self.is_at("*"):
            return SelectItem(Star(self.take().span), "")
        if self.next_token.text == "." and self.peek(2).text == "*":
            self.take()
            self.take()
            return SelectItem(Star(first.span.extend_to(self.take().span)), first.value)
        node = self.parse_expression()
        match node:
            case Name(name=name) | Member(name=name):
                written = name
            case _:
                written = self.source_text(node.span)
        return SelectItem(node, self._parse_alias() or written)

    def _parse_table(self) -> tuple[Name, str]:
        token = self.parse_name("the name of a table")
        alias = "" if self.is_at(*_UNSUPPORTED) else self._parse_alias()
        self._refuse_unsupported()
        return Name(token.span, token.value), alias or token.value

    def _parse_alias(self) -> str:
        if self.accept("as"):
            return self.parse_name("a name").value
        is_name = self.current_token.kind in ("word", "quoted") and not self.is_at(*_CLAUSES)
        return self.take().value if is_name and not self.is_at(*_UNSUPPORTED) else ""

    def _accept_by(self, word: str) -> bool:
        """Read `group by` or `order by`, if it is there."""
        if not self.accept(word):
            return False
        self.expect("by")
        return True

    def _parse_group_by(self) -> tuple[SyntaxNode, ...]:
        if not self._accept_by("group"):
            return ()
        if self.is_at(*_GROUPINGS) and self.next_token.text.lower() in ("(", "sets"):
            what = self.current_token
            raise ExpressionError(f"{what.text} is not supported", what.span, WAY_OUT)
        return self.parse_arguments()

    def _parse_count(self) -> int:
        if not self.current_token.text.isdecimal():
            raise self.unexpected_token_error("a number of rows")
        return int(self.take().text)
