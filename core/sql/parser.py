"""Parser of queries: from text to a syntax tree, with Spark's grammar.

[with name as (query), ...] select ... [union | intersect | except ...] [order by items]
[limit number] [offset number]

select [distinct] items [from tables] [lateral view ...] [where condition] [group by expressions]
[having condition] [qualify condition] [window name as (...)]
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.expressions.parsing.special_forms import parse_sort_items
from headrace.core.expressions.parsing.syntax_tree import (
    CallNode,
    Member,
    Name,
    Star,
    SyntaxNode,
)
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.sql import foreign_clauses
from headrace.core.sql.clause_parser import ClauseParser
from headrace.core.sql.foreign_clauses import CLAUSE_WORDS
from headrace.core.sql.syntax_tree import (
    NamedQuery,
    Operator,
    Query,
    QueryBody,
    Select,
    SelectItem,
    SetOperation,
    Subquery,
    Values,
    make_row_table,
)

_COMPARISONS = ("=", "==", "<>", "!=", "<", "<=", ">", ">=")


def parse_query(text: str, *, takes_paths: bool = False) -> Query:
    """Return the query that a text says, or raise an ExpressionError.

    With `takes_paths`, a text is a table as well: the path of files.

    >>> parse_query("select a, b + 1 from t").body.items[1].name
    'b + 1'
    """
    try:
        parser = _open_parser(text.rstrip().removesuffix(";"))
        parser.takes_paths = takes_paths
        return parser.parse()
    except ExpressionError as error:
        path_error = foreign_clauses.find_bare_path(text, error) if takes_paths else None
        raise path_error or error from None


def _open_parser(text: str) -> QueryParser:
    try:
        return QueryParser(text)
    except ExpressionError as error:
        if text[error.span.start : error.span.end] != ";":
            raise
        message = 'wanted one query, got more after ";"'
        hint = "each query is a step of its own, or a query of with"
        raise ExpressionError(message, error.span, hint) from None


class QueryParser(ClauseParser):
    """A parser of queries; the expressions in them are its base's."""

    def parse(self) -> Query:
        """Parse the whole text."""
        if self.is_at_end:
            raise ExpressionError("wanted a query, got nothing", self.current_token.span)
        foreign_clauses.refuse_statement(self)
        query = self.parse_whole_query()
        if not self.is_at_end:
            foreign_clauses.refuse_clause(self)
            raise self.unexpected_token_error("the end of the query")
        return query

    def unexpected_token_error(self, wanted: str) -> ExpressionError:
        error = super().unexpected_token_error(wanted)
        if error.hint:
            return error
        if hint := foreign_clauses.find_clause_hint(self):
            return ExpressionError(error.message, error.span, hint)
        return foreign_clauses.find_misspelt_word(self) or error

    def is_at_query(self) -> bool:
        ahead = 0
        while self.peek(ahead).text == "(":
            ahead += 1
        word, after = self.peek(ahead).text.lower(), self.peek(ahead + 1)
        if word == "with":
            return after.kind in ("word", "quoted")
        if word == "values" and ahead:
            return after.text == "(" or after.kind in ("number", "string")
        return word == "select" or (word == "values" and after.kind != "end")

    def parse_whole_query(self) -> Query:
        start = self.current_token
        named = self._parse_named() if self.accept("with") else ()
        body = self._parse_sets()
        places: dict[str, Span] = {}
        order_by = parse_sort_items(self) if self.accept_by("order", places) else ()
        foreign_clauses.refuse_clause(self)
        limit, offset = None, 0
        while self.is_at("limit", "offset"):
            word = self.take()
            places[word.text.lower()] = word.span
            if word.text.lower() == "offset":
                offset = self._parse_count()
            elif not self.accept("all"):
                limit = self._parse_count()
        foreign_clauses.refuse_clause(self)
        span = start.span.extend_to(self.previous_token.span)
        return Query(span, body, named, order_by, limit, offset, places)

    def _parse_named(self) -> tuple[NamedQuery, ...]:
        if self.is_at("recursive"):
            message = "with recursive is not supported"
            hint = "as in with a as (...), b as (select ... from a join t ...), for each level"
            raise ExpressionError(message, self.current_token.span, hint)
        found = [self._parse_one_named()]
        while self.accept(","):
            found.append(self._parse_one_named())
        names = [each.name for each in found]
        for at, name in enumerate(names):
            if any(name.name == other.name for other in names[:at]):
                message = f'two queries of with are called "{name.name}"'
                raise ExpressionError(message, name.span, "rename one of them")
        return tuple(found)

    def _parse_one_named(self) -> NamedQuery:
        token = self.parse_name("the name of a query")
        ahead = self.next_token.text.lower()
        has_columns = self.is_at("(") and ahead not in ("select", "with", "values", "(")
        columns = self.parse_names() if has_columns else ()
        self.accept("as")
        self.expect("(")
        query = self.parse_whole_query()
        self.expect(")")
        return NamedQuery(Name(token.span, token.value), query, columns)

    def _parse_sets(self) -> QueryBody:
        """Parse queries with `union` and `except` between them."""
        body = self._parse_intersections()
        while self.is_at("union", "except", "minus"):
            body = self._parse_set_operation(body, self._parse_intersections)
        return body

    def _parse_intersections(self) -> QueryBody:
        body = self._parse_body()
        while self.is_at("intersect"):
            body = self._parse_set_operation(body, self._parse_body)
        return body

    def _parse_set_operation(
        self, left: QueryBody, parse_operand: Callable[[], QueryBody]
    ) -> SetOperation:
        word = self.take()
        is_all = bool(self.accept("all"))
        if not is_all:
            self.accept("distinct")
        keyword = word.span.extend_to(self.previous_token.span)
        operators: dict[str, Operator] = {
            **{"union": "union", "intersect": "intersect"},
            **{"except": "except", "minus": "except"},
        }
        right = parse_operand()
        operator = operators[word.text.lower()]
        return SetOperation(left.span.extend_to(right.span), keyword, operator, is_all, left, right)

    def _parse_body(self) -> QueryBody:
        if self.is_at("(") and self.is_at_query():
            self.take()
            query = self.parse_whole_query()
            self.expect(")")
            return query
        if self.is_at("values"):
            return self._parse_values()
        return self._parse_select()

    def _parse_values(self) -> Values:
        start = self.expect("values")
        rows = [self._parse_row()]
        while self.accept(","):
            rows.append(self._parse_row())
        return Values(start.span.extend_to(self.previous_token.span), tuple(rows))

    def _parse_row(self) -> tuple[SyntaxNode, ...]:
        is_open = self.is_at("(")
        node = self.parse_expression()
        is_row = is_open and isinstance(node, CallNode) and node.name == "struct"
        return node.arguments if is_row and isinstance(node, CallNode) else (node,)

    def _parse_select(self) -> Select:
        start = self.expect("select")
        places = {"select": start.span}
        is_distinct = bool(self.accept("distinct"))
        if is_distinct:
            foreign_clauses.refuse_distinct_on(self)
        elif not self.next_token.text.startswith((",", ".")):
            self.accept("all")
        items = [self._parse_item()]
        while self.accept(","):
            items.append(self._parse_item())
        foreign_clauses.refuse_clause(self)
        has_table = self.accept_clause("from", places)
        table = self.parse_tables() if has_table else make_row_table(start.span)
        views = self.parse_views()
        where = self.parse_expression() if self.accept_clause("where", places) else None
        group_by = self.parse_group_by(places)
        having = self.parse_expression() if self.accept_clause("having", places) else None
        qualify = self.parse_expression() if self.accept_clause("qualify", places) else None
        windows = self.parse_windows() if self.accept_clause("window", places) else {}
        if qualify is None and self.accept_clause("qualify", places):
            qualify = self.parse_expression()
        foreign_clauses.refuse_clause(self)
        span = start.span.extend_to(self.previous_token.span)
        return Select(
            span, tuple(items), table, is_distinct, views, where, group_by, having, qualify,
            windows, places,
        )  # fmt: skip

    def _parse_item(self) -> SelectItem:
        first = self.current_token
        if (self.is_at(*CLAUSE_WORDS) and not self._is_column_ahead()) or self.is_at_end:
            error = self.unexpected_token_error("a column of the result")
            hint = "" if self.is_at_end else f"a column of that name is written `{first.text}`"
            if self.previous_token.text == "," and self.is_at("from"):
                hint = "remove the comma before it"
            raise ExpressionError(error.message, error.span, error.hint or hint)
        if self.is_at("*"):
            return self._finish_star(SelectItem(Star(self.take().span), "", first.span))
        if self.next_token.text == "." and self.peek(2).text == "*":
            self.take()
            self.take()
            span = first.span.extend_to(self.take().span)
            return self._finish_star(SelectItem(Star(span), first.value, first.span))
        node = self.parse_expression()
        foreign_clauses.refuse_bare_filter(self)
        aliases = self._parse_item_aliases()
        match node:
            case _ if len(aliases) == 1:
                return SelectItem(node, aliases[0].name, aliases[0].span, aliases)
            case Name(name=name) | Member(name=name):
                written = name
            case _:
                written = " ".join(self.source_text(node.span).split())
        return SelectItem(node, written, node.span, aliases)

    def _is_column_ahead(self) -> bool:
        """Whether the word of a clause is the name of a column here."""
        ahead = self.next_token
        if self.is_at("order", "group", "sort", "cluster", "distribute"):
            return ahead.text.lower() != "by"
        after = () if self.is_at("from") else ("as", "from")
        return ahead.kind == "symbol" or ahead.text.lower() in after

    def _finish_star(self, item: SelectItem) -> SelectItem:
        foreign_clauses.refuse_star_clause(self)
        return item

    def _parse_item_aliases(self) -> tuple[Name, ...]:
        if self.accept("as"):
            if self.is_at("("):
                return self.parse_names()
            token = self.parse_alias_name()
        elif self.is_at_alias():
            token = self.take()
        else:
            return ()
        return (Name(token.span, token.value),)

    def _parse_word(self) -> SyntaxNode:
        if self.previous_token.text == "(" and self.is_at_query():
            self._refuse_quantifier()
            query = self.parse_whole_query()
            return Subquery(query.span, query, self.source_text(query.span))
        return super()._parse_word()

    def _refuse_quantifier(self) -> None:
        """Refuse a comparison such as `= any (select ...)`."""
        sign, word = self.peek(-3), self.peek(-2)
        text = word.text.lower()
        if sign.text not in _COMPARISONS or text not in ("any", "some", "all"):
            return
        hint = "compare with (select max(...) ...) or (select min(...) ...)"
        if sign.text in ("=", "==") and text != "all":
            hint = "write in (select ...)"
        elif sign.text in ("<>", "!=") and text == "all":
            hint = "write not in (select ...)"
        message = f"{sign.text} {text} (select ...) is not supported"
        raise ExpressionError(message, sign.span.extend_to(word.span), hint)

    def _parse_count(self) -> int:
        if not self.current_token.text.isdecimal():
            raise self.unexpected_token_error("a number of rows")
        return int(self.take().text)
