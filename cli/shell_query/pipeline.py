"""The pipeline of a query at the shell: its tables as sources, the query as the only step, and the
collected rows as the sink.

A table is a source or a step of the pipeline that was given, or else files or stored state.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cli.shell_query.result_order import ResultOrder, split_order
from headrace.cli.shell_query.tables import (
    RejectedTables,
    TableSources,
    build_sources,
    end_source,
    find_topics,
)
from headrace.connectors.collected_rows import CollectedRows, CollectedRowsOptions
from headrace.connectors.registry import REGISTRY
from headrace.core.errors.problems import Location, Problem
from headrace.core.expressions.parsing.syntax_tree import Name
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.clauses.query import QueryText
from headrace.core.pipeline.loader import LoadedPipeline, PipelineInputs
from headrace.core.pipeline.model import Pipeline, Sink
from headrace.core.pipeline.row_source import add_row_source
from headrace.core.pipeline.settings import Buffer, Settings, State
from headrace.core.pipeline.sql_section import build_query_step
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.plan.connector import Connectors
from headrace.core.plan.nodes import Plan
from headrace.core.plan.output_streams import list_declared_streams
from headrace.core.plan.plan_assembly import build_plan
from headrace.core.queries import TypedQuery
from headrace.core.sql.parser import parse_query
from headrace.core.sql.syntax_tree import Query, TableName, list_table_names
from headrace.core.sql.unread_queries import split_unread
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.connectors.guess import SchemaGuess

QUERY_SETTINGS = Settings().model_copy(
    update={
        "state": State().model_copy(update={"backend": "memory"}),
        "buffer": Buffer().model_copy(
            update={"rows": 1 << 20, "bytes": 64 << 20, "timeout": timedelta(seconds=1)}
        ),
    }
)
"""The settings without a pipeline. The result is held in memory, and so is state. Batches are
large: nobody waits for one row."""

QUERY, ROWS = "@query", "@rows"
"""The names of the step and of the sink, which no part of a pipeline can have."""


class RejectedSql(Exception):
    """The query cannot be run; `problems` has the reasons."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        super().__init__()
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class ShellQuery:
    """A query that can be run: its plan, and what becomes of its rows."""

    pipeline: Pipeline
    plan: Plan
    folder: Path
    """The folder of the pipeline."""
    connectors: Connectors
    rows: CollectedRows
    schema: Schema
    """The columns of the collected rows."""
    order: ResultOrder
    sort: TypedQuery | None
    warnings: tuple[Problem, ...]
    guessed: frozenset[str]
    """The sources of files whose columns were guessed."""


@dataclass(frozen=True, slots=True)
class QueryInputs:
    """The tables of a query, apart from files: the parts of a pipeline, and the stored state."""

    given: LoadedPipeline | None
    home: str
    """The folder of the jobs whose state can be read."""
    follows: bool = False
    """Whether sources that can end at what is there now are read without an end instead."""
    skips_bad_records: bool = False
    """Whether bad records of files that no pipeline describes are left out."""
    guesses: Mapping[str, SchemaGuess] = field(default_factory=dict)
    """The guesses of files that have been read already, by the names of their tables."""

    def list_parts(self) -> Pipeline:
        """Return the pipeline that was given, with a source for each topic by its name."""
        if self.given is None:
            return replace(Pipeline(Text("query")), settings=QUERY_SETTINGS)
        known = self.given.pipeline
        sources = {**find_topics(known.sources), **known.sources}
        if not self.follows:
            sources = {name: end_source(each) for name, each in sources.items()}
        return replace(known, sources=sources)


def plan_query(sql: str, inputs: QueryInputs) -> ShellQuery:
    """Return the plan of a query over files, stored state and the parts of a pipeline.

    Raises RejectedSql.
    """
    file = SourceText("query", sql)
    try:
        whole = parse_query(sql, takes_paths=True)
        query, order = split_order(whole, sql)
        query, unread = split_unread(query)
    except ExpressionError as error:
        raise RejectedSql([_locate_error(error, file)]) from None
    known = inputs.list_parts()
    tables = dict[str, TableName]()
    for each in list_table_names(query):
        tables.setdefault(each.name, each)
    known = replace(known, sources=add_row_source(dict(known.sources), tables, REGISTRY))
    streams = {str(stream): str(part.name) for part, stream in list_declared_streams(known)}
    try:
        paths = [each for name, each in tables.items() if name not in streams]
        outside = build_sources(
            paths, file, streams, inputs.home, inputs.skips_bad_records, inputs.guesses
        )
    except RejectedTables as rejected:
        raise RejectedSql(rejected.problems) from None
    pipeline, rows, connectors = _build_pipeline(sql, query, known, outside, order)
    needed = _find_needed_parts(known, tables, streams)
    pipeline = _select_parts(pipeline, needed | outside.sources.keys() | {QUERY, ROWS})
    loaded = inputs.given.inputs if inputs.given else NO_INPUTS
    plan, problems = build_plan(LoadedPipeline(pipeline, frozenset(), (), loaded), is_lasting=False)
    warnings = (*(_warn_of_unread(each.name, file) for each in unread), *outside.warnings)
    problems = tuple(_clean_problem(each, file) for each in (*warnings, *problems))
    if plan is None:
        raise RejectedSql(problems)
    # What is collected may be the result converted: its changes by key in place of removed rows.
    stream = plan.streams[next(edge.stream for edge in plan.edges if edge.consumer == ROWS)]
    rows.kind = stream.kind
    schema = Schema(tuple(field for field in stream.schema if field.name != DELETE))
    try:
        sort = order.type_sort(schema)
    except ExpressionError as error:
        raise RejectedSql([_locate_error(error, file)]) from None
    folder, guessed = loaded.path.parent, outside.list_guessed()
    return ShellQuery(
        pipeline, plan, folder, connectors, rows, schema, order, sort, problems, guessed
    )


NO_INPUTS = PipelineInputs(Path("query"), None, (), {}, {})


def _select_parts(pipeline: Pipeline, names: Collection[str]) -> Pipeline:
    sources = {name: each for name, each in pipeline.sources.items() if each.name in names}
    steps = {name: each for name, each in pipeline.steps.items() if each.name in names}
    return replace(pipeline, sources=sources, steps=steps)


def _build_pipeline(
    sql: str, query: Query, known: Pipeline, outside: TableSources, order: ResultOrder
) -> tuple[Pipeline, CollectedRows, Connectors]:
    """Return the pipeline with the query as a step and the sink of its rows."""
    file = SourceText("query", sql)
    scalar = YamlScalar(file, 0, len(sql), sql, "=")
    text = QueryText(Text(sql, scalar), query)
    rows = CollectedRows(order.enough)
    connector = rows.build_connector(ROWS)
    step = build_query_step(Text(QUERY), text, parallelism=1)
    sink = Sink.model_construct(
        name=Text(ROWS),
        from_=Text(QUERY, scalar),
        connector=connector,
        options=CollectedRowsOptions(),
        keys_at={ROWS: text.text},
        parallelism=1,
    )
    sources, steps = {**known.sources, **outside.sources}, {**known.steps, QUERY: step}
    pipeline = replace(known, sources=sources, steps=steps, sinks={ROWS: sink})
    # A chain writes to its first mapping only; a copy of the second would load all connectors.
    connectors: Connectors = ChainMap({ROWS: connector}, outside.connectors)  # type: ignore[arg-type]
    return pipeline, rows, connectors


def _locate_error(error: ExpressionError, file: SourceText) -> Problem:
    return Problem(error.message, _locate(error.span, file), error.hint)


def _warn_of_unread(name: Name, file: SourceText) -> Problem:
    message = f'nothing reads the query "{name.name}"'
    return Problem(message, _locate(name.span, file), severity="warning")


def _clean_problem(problem: Problem, file: SourceText) -> Problem:
    """Return a problem of the query without the name of its step, with a hint for the shell."""
    if problem.location is not None and problem.location.file != file.name:
        return problem
    needs_time = problem.hint.startswith("set event_time in the source")
    return replace(problem, subject="", hint=EVENT_TIME_HINT if needs_time else problem.hint)


EVENT_TIME_HINT = (
    "sources of a pipeline have it, which -f names; group by date_trunc('hour', at) needs none"
)


def _find_needed_parts(
    known: Pipeline, tables: Iterable[str], streams: Mapping[str, str]
) -> frozenset[str]:
    """Return the parts of a pipeline that these tables need; `streams` has the part of each."""
    needed, waiting = set[str](), [*tables]
    while waiting:
        name = streams.get(waiting.pop())
        if name is not None and name not in needed:
            needed.add(name)
            step = known.steps.get(name)
            waiting += [str(each) for each in step.input_streams] if step else []
    return frozenset(needed)


def _locate(span: Span, file: SourceText) -> Location:
    return file.locate(span.start, span.end)
