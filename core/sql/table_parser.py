"""Parser of what follows `from`: tables, their joins, and lateral views."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from headrace.core.expressions.parsing.lexer import SqlToken
from headrace.core.expressions.parsing.syntax_tree import CallNode, Name, SyntaxNode
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.sql.foreign_clauses import (
    CLAUSE_WORDS,
    JOIN_WORDS,
    MATCH_TABLE_HINT,
    SET_WORDS,
    is_at_fetch,
    refuse_clause_as_table,
)
from headrace.core.sql.match_parser import MatchParser
from headrace.core.sql.syntax_tree import (
    DerivedTable,
    JoinedTable,
    JoinKind,
    LateralView,
    Query,
    TableItem,
    TableName,
)
from headrace.core.types.lazy_pattern import compile_pattern

RESERVED_WORDS = (
    CLAUSE_WORDS
    | JOIN_WORDS
    | {*SET_WORDS, "on", "using", "lateral", "tablesample", "for", "match_recognize"}
)
"""The words that are no alias, unless they are in back quotes."""
FILE_ENDING = compile_pattern(r"\.(json|jsonl|ndjson|csv|parquet)(\.gz|\.zst)?$")
_TABLE_CLAUSES = {
    "tablesample": "as in where id % 10 = 0",
    "pivot": "as in sum(amount) filter (where city = 'Oslo') as oslo, a column for each value",
    "unpivot": "lateral view explode(map('a', a, 'b', b)) t as name, value makes rows of columns",
}
"""The clauses after a table that are not supported, with hints."""
WINDOW_TABLE_HINT = (
    "group by tumble(time, interval 10 seconds), hop(...), cumulate(...) or session(...)"
)
_EXPLODE_HINT = "lateral view explode(...) t as item, after the tables, makes rows of an array"
QUOTES_HINT = "a name is quoted with `, a text with ' or \""
PATH_HINT = f"{QUOTES_HINT}; headrace query reads files by their path"


class TableParser(MatchParser):
    """A parser of tables; the queries in parentheses are its subclass's."""

    takes_paths = False
    """Whether the path of files is a table, and a text is such a path."""

    @abstractmethod
    def parse_whole_query(self) -> Query:
        """Parse a query, up to the token that does not continue it."""

    @abstractmethod
    def is_at_query(self) -> bool:
        """Whether a query begins here."""

    def parse_tables(self) -> TableItem:
        """Parse the tables after `from`, with commas between them."""
        item = self._parse_joined()
        while comma := self.accept(","):
            right = self._parse_joined()
            span = item.span.extend_to(right.span)
            item = JoinedTable(span, comma.span, item, right, "cross", is_comma=True)
        return item

    def parse_views(self) -> tuple[LateralView, ...]:
        """Parse the lateral views after the tables."""
        views = []
        while self.is_at("lateral") and self.next_token.text.lower() == "view":
            views.append(self._parse_view())
        if self.is_at("lateral"):
            raise _lateral_error(self.current_token.span)
        return tuple(views)

    def _parse_joined(self) -> TableItem:
        item = self._parse_table()
        while self.is_at(*JOIN_WORDS):
            item = self._parse_join(item)
        return item

    def _parse_join(self, left: TableItem) -> TableItem:
        start = self.current_token
        is_natural = bool(self.accept("natural"))
        kind = self._parse_kind()
        self.expect("join")
        keyword = start.span.extend_to(self.previous_token.span)
        right = self._parse_table()
        on, using = None, tuple[Name, ...]()
        if self.accept("on"):
            on = self.parse_expression()
        elif self.accept("using"):
            using = self.parse_names()
        span = left.span.extend_to(self.previous_token.span)
        return JoinedTable(span, keyword, left, right, kind, on, using, is_natural)

    def _parse_kind(self) -> JoinKind:
        word = self.accept(*(JOIN_WORDS - {"join", "natural"}))
        if word is None:
            return "inner"
        kind = word.text.lower()
        if kind == "left" and (half := self.accept("semi", "anti")):
            kind = half.text.lower()
        elif kind in ("left", "right", "full"):
            self.accept("outer")
        kinds: dict[str, JoinKind] = {
            **{"inner": "inner", "left": "left", "right": "right", "full": "full"},
            **{"semi": "semi", "anti": "anti", "cross": "cross"},
        }
        return kinds[kind]

    def _parse_table(self) -> TableItem:
        item = self._parse_single_table()
        if not self.is_at("match_recognize"):
            return item
        if isinstance(item, TableName | DerivedTable):
            match = self.parse_match(item)
            alias, alias_span, columns = self._parse_alias()
            place = alias_span or match.span
            return replace(match, alias=alias, alias_span=place, columns=columns)
        message = "match_recognize follows one table"
        raise ExpressionError(message, self.current_token.span, MATCH_TABLE_HINT)

    def _parse_single_table(self) -> TableItem:
        start = self.current_token
        if self.accept("("):
            return self._parse_parenthesized(start.span)
        if self.is_at("values"):
            query = self.parse_whole_query()
            return self._name_query(query, start.span.extend_to(self.previous_token.span))
        if self.is_at("lateral") and self.peek(2).text == "(":
            message = f"lateral {self.next_token.text}(...) is no table"
            is_table = self.next_token.text.lower() == "table"
            versions = "; for system_time as of joins the rows of a time" if is_table else ""
            hint = f"{_EXPLODE_HINT}{versions}"
            raise ExpressionError(message, start.span.extend_to(self.next_token.span), hint)
        if start.kind == "string" and not self.takes_paths:
            message = f"wanted the name of a table, got {start.text}"
            raise ExpressionError(message, start.span, PATH_HINT)
        refuse_clause_as_table(self)
        name = self.take() if start.kind == "string" else self.parse_name("the name of a table")
        span, parts = name.span, [name.value]
        while self.accept("."):
            part = self.parse_name("a name")
            span = span.extend_to(part.span)
            parts.append(part.value)
        written = ".".join(parts)
        if self.is_at("("):
            raise self._table_function_error(written, span)
        as_of = self._parse_as_of()
        if self.is_at(*_TABLE_CLAUSES):
            what = self.current_token.text.lower()
            message = f"{what} is not supported"
            raise ExpressionError(message, self.current_token.span, _TABLE_CLAUSES[what])
        alias, alias_span, columns = self._parse_alias()
        if not alias:
            is_text = start.kind == "string"
            alias = _name_table(parts, is_text=is_text) if self.takes_paths else written
        return TableName(span, written, alias, alias_span or span, columns, as_of)

    def _parse_as_of(self) -> SyntaxNode | None:
        if not (self.is_at("for") and self.next_token.text.lower() == "system_time"):
            return None
        self.take()
        self.take()
        self.expect("as")
        self.expect("of")
        return self.parse_value()

    def _table_function_error(self, name: str, span: Span) -> ExpressionError:
        if name.lower() == "lateral":
            return _lateral_error(span)
        inner = self.next_token.text if name.lower() == "table" else name
        if inner.lower() in ("tumble", "hop", "cumulate", "session", "window"):
            message = f"windows are not tables here, got {inner.upper()}(...)"
            return ExpressionError(message, span, WINDOW_TABLE_HINT)
        name = inner
        message = f"a function is no table, got {name}(...)"
        if self.takes_paths and self.peek(1).kind == "string":
            return ExpressionError(message, span, f"as in from {self.peek(1).text}")
        hint = _EXPLODE_HINT
        if name.lower() == "unnest":
            hint += ", and posexplode(...) numbers them"
        if name.lower() in ("range", "generate_series", "sequence"):
            hint = "as in (select 1) lateral view explode(sequence(1, 3)) t as id"
        return ExpressionError(message, span, hint)

    def _parse_parenthesized(self, start: Span) -> TableItem:
        if not self.is_at_query():
            item = self.parse_tables()
            self.expect(")")
            return item
        query = self.parse_whole_query()
        end = self.expect(")")
        return self._name_query(query, start.extend_to(end.span))

    def _name_query(self, query: Query, span: Span) -> DerivedTable:
        alias, alias_span, columns = self._parse_alias()
        return DerivedTable(span, query, alias, alias_span or span, columns)

    def _parse_alias(self) -> tuple[str, Span | None, tuple[Name, ...]]:
        """Parse `as t (a, b)`, each part of which may be missing."""
        if self.accept("as"):
            token = self.parse_alias_name()
        elif self.is_at_alias():
            token = self.take()
        else:
            return "", None, ()
        if self.is_at("(") and self.peek(2).keyword == "by":
            message = f'wanted "match_recognize", got {token}'
            raise ExpressionError(message, token.span, 'write "match_recognize"')
        columns = self.parse_names() if self.is_at("(") else ()
        return token.value, token.span, columns

    def parse_alias_name(self) -> SqlToken:
        """Read the name after `as`."""
        if self.current_token.kind == "string":
            token = self.current_token
            raise ExpressionError(f"wanted a name, got {token.text}", token.span, QUOTES_HINT)
        return self.parse_name("a name")

    def is_at_alias(self) -> bool:
        """Whether the current token names what is before it."""
        if self.current_token.kind == "quoted":
            return True
        is_reserved = self.is_at(*RESERVED_WORDS) or is_at_fetch(self)
        return self.current_token.kind == "word" and not is_reserved

    def parse_names(self) -> tuple[Name, ...]:
        """Parse names in parentheses."""
        self.expect("(")
        names = [self.parse_name("a name")]
        while self.accept(","):
            names.append(self.parse_name("a name"))
        self.expect(")")
        return tuple(Name(token.span, token.value) for token in names)

    def _parse_view(self) -> LateralView:
        start = self.take()
        self.take()
        is_outer = bool(self.accept("outer"))
        generator = self.parse_value()
        if not isinstance(generator, CallNode):
            message = "wanted a generator such as explode(items)"
            raise ExpressionError(message, generator.span)
        table, columns = "", list[Name]()
        if self.is_at_alias() and not self.is_at("as"):
            table = self.take().value
        if self.accept("as"):
            columns.append(self._parse_column())
            while self.accept(","):
                columns.append(self._parse_column())
        span = start.span.extend_to(self.previous_token.span)
        return LateralView(span, generator, table, tuple(columns), is_outer)

    def _parse_column(self) -> Name:
        token = self.parse_name("the name of a column")
        return Name(token.span, token.value)


def _name_table(parts: Sequence[str], *, is_text: bool) -> str:
    """Return the name that columns of a table have before them: as in Spark the last of its parts,
    or the name of the file, if the parts are the path of files.

    >>> _name_table(["orders", "csv"], is_text=False)
    'orders'
    >>> _name_table(["paid@12", "totals"], is_text=True)
    'totals'
    """
    written = ".".join(parts)
    is_path = FILE_ENDING.search(written) or (is_text and len(parts) == 1)
    return _name_path(written) if is_path else parts[-1]


def _name_path(path: str) -> str:
    """Return the name of a table that is the path of files: that of the file, without its endings.

    >>> _name_path("in/orders.jsonl.gz"), _name_path("orders/*.jsonl")
    ('orders', '')
    """
    name = path.rstrip("/").rpartition("/")[2].partition(".")[0]
    return name if name.isidentifier() else ""


def _lateral_error(span: Span) -> ExpressionError:
    message = "lateral before a query is not supported"
    hint = "join its table; lateral view explode(...) makes rows of an array"
    return ExpressionError(message, span, hint)
