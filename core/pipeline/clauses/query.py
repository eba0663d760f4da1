"""The clause `sql`: a query in place of the other clauses of a step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.diagnostics import make_expected_error, make_value_error
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.pipeline.values import FieldReading, expression
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.sql.syntax_tree import Query


@dataclass(frozen=True, slots=True)
class QueryText:
    """A query as it is written, and its syntax tree, whose spans are those of the text."""

    text: Text
    query: Query

    def list_tables(self) -> tuple[Text, ...]:
        """Return the sources and steps that the query reads, each once.

        Those that only queries of `with` read that nothing reads are not among them.
        """
        from headrace.core.sql.syntax_tree import list_table_names
        from headrace.core.sql.unread_queries import split_unread

        tables = dict[str, Text]()
        for each in list_table_names(split_unread(self.query)[0]):
            tables.setdefault(each.name, self.name(each.name, each.span))
        return tuple(tables.values())

    def list_unread_tables(self) -> Iterator[str]:
        """Yield the names in the queries of `with` that nothing reads."""
        from headrace.core.sql.syntax_tree import list_table_names
        from headrace.core.sql.unread_queries import split_unread

        for named in split_unread(self.query)[1]:
            yield from (each.name for each in list_table_names(named.query))

    def name(self, name: str, span: Span) -> Text:
        """Return a name with the position of a part of the text."""
        return self.text.compose([TextPart(span.start, span.end, name)])


class SqlReading(FieldReading):
    """The reading of a query. Its first syntax error is reported at its place."""

    def __init__(self) -> None:
        self.wanted = "a query such as select id, price from orders"
        self.json = expression.json

    def read(self, value: object) -> QueryText:
        # Pipelines without SQL start without its parser, which takes 15 ms to import.
        from headrace.core.sql.parser import parse_query

        if isinstance(value, dict):
            hint = "a table of a database belongs inside lookup, as in lookup: {sql: {...}, ...}"
            if "file" in value:
                hint = f"write sql: ${{file:{value[Text('file')]}}}"
            raise make_expected_error(value, self.wanted, hint)
        text = expression.read(value)
        assert isinstance(text, Text)
        try:
            return QueryText(text, parse_query(text.reveal()))
        except ExpressionError as error:
            span = (error.span.start, error.span.end)
            raise make_value_error(text, error.message, error.hint, span) from None


SqlQuery = Annotated[QueryText, SqlReading()]
