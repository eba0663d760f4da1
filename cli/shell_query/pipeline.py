"""The pipeline of a query at the shell: its tables as sources, the query as the only step, and the
collected rows as the sink.

A table is a source or a step of the pipeline that was given, or else the path of files, whose
columns are guessed from the first of them.
"""

from __future__ import annotations

import json
import os
from collections import ChainMap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.cli.shell_query.result_order import ResultOrder, split_order
from headrace.connectors.collected_rows import CollectedRows, CollectedRowsOptions
from headrace.connectors.files.discovery import build_no_files_error, find_files
from headrace.connectors.guess import SchemaGuess, UnreadableFile, guess_schema
from headrace.connectors.registry import REGISTRY
from headrace.core.api.failures import ConnectorError
from headrace.core.errors.problems import Location, Problem, suggest_name
from headrace.core.expressions.typed import ExpressionError, Span
from headrace.core.pipeline.clauses.query import QueryText
from headrace.core.pipeline.loader import LoadedPipeline, PipelineInputs, reload_pipeline
from headrace.core.pipeline.model import Pipeline, Sink, Source, Step
from headrace.core.pipeline.text import Text
from headrace.core.pipeline.yaml_document.nodes import YamlScalar
from headrace.core.pipeline.yaml_document.source_file import SourceText
from headrace.core.plan import Plan, build_plan, nodes
from headrace.core.plan.connector import Connectors
from headrace.core.plan.output_streams import list_declared_streams
from headrace.core.queries import TypedQuery
from headrace.core.sql.parser import parse_query
from headrace.core.sql.syntax_tree import TableName, list_table_names
from headrace.core.types.data_types import Schema
from headrace.core.types.elements import DELETE

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


def plan_query(sql: str, given: LoadedPipeline | None) -> ShellQuery:
    """Return the plan of a query over files, and over the parts of a pipeline that was given.

    Raises RejectedSql.
    """
    file = SourceText("query", sql)
    try:
        whole = parse_query(sql, takes_paths=True)
        query, order = split_order(whole, sql)
    except ExpressionError as error:
        raise RejectedSql([_locate_error(error, file)]) from None
    known = given.pipeline if given else Pipeline(Text("query"))
    tables = dict[str, TableName]()
    for each in list_table_names(query):
        tables.setdefault(each.name, each)
    streams = {str(stream): str(part.name) for part, stream in list_declared_streams(known)}
    paths = [each for name, each in tables.items() if name not in streams]
    needed = _find_needed_parts(known, tables, streams)
    sources = {name: each for name, each in known.sources.items() if each.name in needed}
    steps = {name: each for name, each in known.steps.items() if each.name in needed}
    sources.update(_build_sources(paths, file, streams))
    scalar = YamlScalar(file, 0, len(sql), sql, "=")
    text = QueryText(Text(sql, scalar), query)
    rows = CollectedRows(order.enough)
    connector = rows.build_connector(ROWS)
    step = Step.model_construct(
        name=Text(QUERY),
        sql=text,
        keys_at={"sql": text.text, "from": text.text},
        from_=text.list_tables(),
        input_streams=text.list_tables(),
        states={},
        parallelism=1,
    )
    sink = Sink.model_construct(
        name=Text(ROWS),
        from_=Text(QUERY, scalar),
        connector=connector,
        options=CollectedRowsOptions(),
        keys_at={ROWS: text.text},
        parallelism=1,
    )
    pipeline = replace(known, sources=sources, steps={**steps, QUERY: step}, sinks={ROWS: sink})
    inputs = given.inputs if given else PipelineInputs(Path("query"), None, (), {}, {})
    plan, problems = build_plan(LoadedPipeline(pipeline, frozenset(), (), inputs), is_lasting=False)
    problems = tuple(_clean_problem(each, file) for each in problems)
    if plan is None:
        raise RejectedSql(problems)
    stream = next(s for part in plan for s in _list_outputs(part) if s.name == QUERY)
    rows.kind = stream.kind
    schema = Schema(tuple(field for field in stream.schema if field.name != DELETE))
    try:
        sort = order.type_sort(schema)
    except ExpressionError as error:
        raise RejectedSql([_locate_error(error, file)]) from None
    connectors = ChainMap({ROWS: connector}, REGISTRY)  # type: ignore[arg-type]
    folder = inputs.path.parent
    return ShellQuery(pipeline, plan, folder, connectors, rows, schema, order, sort, problems)


def _list_outputs(part: nodes.PlanPart) -> tuple[nodes.Stream, ...]:
    return () if isinstance(part, nodes.Sink) else part.outputs


def _locate_error(error: ExpressionError, file: SourceText) -> Problem:
    return Problem(error.message, _locate(error.span, file), error.hint)


def _clean_problem(problem: Problem, file: SourceText) -> Problem:
    """Return a problem of the query without the name of its step."""
    at = problem.location
    return replace(problem, subject="") if at is None or at.file == file.name else problem


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


def _build_sources(
    tables: Iterable[TableName], file: SourceText, streams: Mapping[str, str]
) -> dict[str, Source]:
    """Return the sources of paths, by the paths. Raises RejectedSql."""
    problems, described = list[Problem](), dict[str, object]()
    paths: list[str] = []
    for table in tables:
        try:
            described[f"files{len(paths)}"] = _describe_source(table.name)
            paths.append(table.name)
        except (ConnectorError, UnreadableFile) as error:
            hint = error.hint if isinstance(error, ConnectorError) else ""
            message = error.message if isinstance(error, ConnectorError) else str(error)
            if near := suggest_name(table.name, streams):
                hint = near
            problems.append(Problem(message, _locate(table.span, file), hint))
    if problems or not paths:
        if problems:
            raise RejectedSql(problems)
        return {}
    document = json.dumps(
        {
            "name": "query",
            "sources": described,
            "sinks": {"rows": {"from": "files0", "console": {}}},
        }
    ).replace("${", "$${")
    inputs = PipelineInputs(Path("query"), SourceText("files", document), (), {}, {})
    loaded = reload_pipeline(inputs, REGISTRY)
    if not loaded.is_valid:
        raise RejectedSql(replace(each, location=None, subject="") for each in loaded.problems)
    return {
        path: source.model_copy(update={"name": Text(path)})
        for path, source in zip(paths, loaded.pipeline.sources.values(), strict=True)
    }


def _locate(span: Span, file: SourceText) -> Location:
    return file.locate(span.start, span.end)


def _describe_source(path: str) -> dict[str, object]:
    """Return the keys of a source of these files. Raises ConnectorError or UnreadableFile."""
    files = find_files("", path)
    if not files:
        raise build_no_files_error(os.curdir, path)
    guess = guess_schema(files[0])
    keys: dict[str, object] = {"files": {"path": os.path.abspath(path)}, "format": guess.format}
    if guess.format == "csv":
        keys["csv"] = {"delimiter": guess.delimiter}
    return {**keys, "schema": _describe_columns(guess)}


def _describe_columns(guess: SchemaGuess) -> dict[str, str]:
    return {column.name: str(column.type) for column in guess.columns}
