"""The section `sql` of a document: views, which are steps, and the queries that sinks write.

    sql: |
      create view paid as select * from orders where paid;
      insert into revenue select city, sum(amount) as total from paid group by city;

Each is the step that `sql` in a step would make: that of a view has its name, and that of a sink
has the name of the sink with `@query`.

Tests: tests/core/pipeline/test_sql_section.py.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from headrace.core.errors.problems import Location
from headrace.core.expressions.typed import ExpressionError
from headrace.core.pipeline.clauses.query import QueryText
from headrace.core.pipeline.diagnostics import DocumentProblems
from headrace.core.pipeline.model import Step
from headrace.core.pipeline.node_resolver import quote_key
from headrace.core.pipeline.text import Text, TextPart
from headrace.core.pipeline.values import InvalidScalar
from headrace.core.pipeline.values import name as name_reading
from headrace.core.types.lazy_dataclass import dataclass

QUERY_SUFFIX = "@query"
"""The suffix of a step that makes the rows of a sink; before it is the name of the sink."""


@dataclass(slots=True)
class SqlSection:
    """The statements of the section, as far as they are valid."""

    steps: dict[str, Step] = field(default_factory=dict)
    inputs: dict[str, Text] = field(default_factory=dict)
    """The names of the sinks that the statements write."""
    broken_names: set[str] = field(default_factory=set)
    """The names of steps whose queries are invalid."""
    is_broken: bool = False
    """Whether a statement could not be read, so that there may be more names."""


def name_query(sink: Text) -> Text:
    """Return the name of the step that makes the rows of a sink, at the place of its name."""
    return sink.compose([TextPart(0, len(sink), f"{sink}{QUERY_SUFFIX}")])


def build_query_step(name: Text, query: QueryText, **keys: Any) -> Step:
    """Build the step of a query."""
    tables = query.list_tables()
    return Step.model_construct(
        name=name,
        sql=query,
        keys_at={"sql": query.text, "from": query.text},
        from_=tables,
        input_streams=tables,
        states={},
        **keys,
    )


def read_statements(text: Text, findings: DocumentProblems) -> SqlSection:
    """Read the statements of a text; report all that are invalid."""
    # Pipelines without SQL start without its parser.
    from headrace.core.sql.statements import split_statements

    reader = _StatementReader(findings)
    for span in split_statements(text.reveal()):
        reader.read(text.compose([TextPart(span.start, span.end)]))
    return reader.section


class _StatementReader:
    """A reader of statements, which collects what they make."""

    def __init__(self, findings: DocumentProblems) -> None:
        self.findings = findings
        self.section = SqlSection()

    def read(self, text: Text) -> None:
        """Add the step of a statement to the section, or report why there is none."""
        from headrace.core.sql.parser import parse_query
        from headrace.core.sql.statements import parse_statement

        try:
            statement = parse_statement(text.reveal())
        except ExpressionError as error:
            self.section.is_broken = True
            place = text.locate(error.span.start, error.span.end)
            self._report(error.message, place, error.hint)
            return
        if statement is None:
            return
        start, end = statement.name_span.start, statement.name_span.end
        name = text.compose([TextPart(start, end, statement.name)])
        written = text.compose([TextPart(statement.query_span.start, statement.query_span.end)])
        query = None
        try:
            query = QueryText(written, parse_query(written.reveal()))
        except ExpressionError as error:
            place = written.locate(error.span.start, error.span.end)
            self._report(error.message, place, error.hint)
            self.section.broken_names.add(name if statement.is_view else name_query(name))
        if statement.is_view:
            self._add_view(name, query)
        else:
            self._add_insert(name, query)

    def _add_view(self, name: Text, query: QueryText | None) -> None:
        try:
            name_reading.parse(name)
        except InvalidScalar as unfit:
            message = f"wanted {unfit.wanted or name_reading.wanted}, got {quote_key(name)}"
            return self._report(message, name.locate(), unfit.hint)
        if name in self.section.steps:
            return self._report(f'there are two views "{name}"', name.locate())
        if query is not None:
            self.section.steps[name] = build_query_step(name, query)

    def _add_insert(self, sink: Text, query: QueryText | None) -> None:
        if sink in self.section.inputs:
            hint = "insert into it once, with union all between the queries"
            return self._report(f'the sink "{sink}" has two queries', sink.locate(), hint)
        step = name_query(sink)
        if query is not None:
            self.section.steps[step] = build_query_step(step, query)
        self.section.inputs[sink] = sink

    def _report(self, message: str, place: Location, hint: str = "") -> None:
        self.findings.add(message, place, hint, "sql")
