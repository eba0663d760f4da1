"""`headrace state query`: SQL over stored state.

Expressions in it mean what they mean in pipelines (docs/decisions/0014).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import JobName
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import add_home_option, paint_problem
from headrace.cli.state.snapshot_argument import (
    add_json_option,
    open_snapshot,
    report_snapshot_errors,
)

if TYPE_CHECKING:
    from headrace.cli.state.sql_tables import Table, TableFactory
    from headrace.core.errors.problems import Location, Problem
    from headrace.core.expressions.typed import ExpressionError, Span
    from headrace.core.queries import TypedQuery

REJECTED_STATEMENTS = "alter|create|delete|drop|insert|truncate|update"
QUERY_FORMATS = ("table", "csv", "json", "parquet")


@click.command()
@click.argument("what", type=JobName())
@click.argument("sql")
@click.option(
    "--format", "form", type=click.Choice(QUERY_FORMATS), default="table", show_default=True
)
@click.option("--to", metavar="FILE", type=click.Path(dir_okay=False), help="Write to this file.")
@add_json_option
@add_home_option
@report_snapshot_errors
def query(what: str, sql: str, form: str, to: str | None, as_json: bool, home: str) -> None:
    """Query stored state in SQL.

    WHAT is a job (its newest checkpoint), JOB@N for its checkpoint N, or the folder of a
    savepoint. A table has the name of its step, or STEP_STATE if the step has several states. In
    addition there are `sources`, the position of each split, and `counts`, the row counts of each
    part. SHOW TABLES lists all tables.
    """
    form = "json" if as_json else form
    if form == "parquet" and to is None:
        raise Refusal("wanted a file for parquet", "--to FILE names it")
    with open_snapshot(what, home) as snapshot:
        from headrace.cli.state.sql_tables import build_tables
        from headrace.cli.state.table_output import write_table

        try:
            table, warnings = run_state_query(sql, build_tables(snapshot))
        except QueryError as error:
            _print_problems(error.problems)
            click.get_current_context().exit(2)
        _print_problems(warnings)
        write_table(table, form, to)


class QueryError(Exception):
    """A query has mistakes."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


def run_state_query(
    sql: str, known: Mapping[str, TableFactory], max_value: int | None = None
) -> tuple[Table, Sequence[Problem]]:
    """Run a query; return its rows, and warnings of what is allowed, but probably not meant.

    Only the table that it names is read. `max_value` is the largest value, in bytes, that a growing
    call may make, if not that of pipelines. Raises QueryError, Refusal.
    """
    import re
    import time

    import polars as pl

    from headrace.cli.state.sql_tables import Table
    from headrace.core.errors.value_errors import ExpressionFailure
    from headrace.core.expressions.typed import DEFAULT_MAX_VALUE, ExpressionError, ExpressionErrors
    from headrace.core.queries import parse_query, run_query, type_query
    from headrace.core.types.data_types import STRING, Field, Schema

    if re.fullmatch(r"\s*show\s+tables\s*;?\s*", sql, re.IGNORECASE):
        return Table(pl.DataFrame({"name": [*known]}), Schema((Field("name", STRING),))), ()
    if re.match(rf"\s*({REJECTED_STATEMENTS})\b", sql, re.IGNORECASE):
        raise Refusal("wanted a query, got another statement", "only SELECT is supported")
    try:
        query = parse_query(sql)
        table = _find_table(query.table.name, known)() if query.table else None
        schema = table.schema if table else Schema(())
        typed = type_query(query, schema, max_value or DEFAULT_MAX_VALUE)
        warnings = _find_warnings(sql, typed, table)
        rows = run_query(typed, table.rows if table else None, time.time_ns() // 1000)
    except ExpressionFailure as error:
        raise Refusal(error.message) from error
    except ExpressionError as error:
        raise QueryError(_build_problems(sql, (error,))) from error
    except ExpressionErrors as failed:
        raise QueryError(_build_problems(sql, failed.errors)) from failed
    return Table(rows, typed.schema), warnings


def _find_table(name: str, known: Mapping[str, TableFactory]) -> TableFactory:
    from headrace.core.errors.problems import suggest_name
    from headrace.core.types.data_types import quote_name

    if name not in known:
        there = f"the tables are {', '.join(map(quote_name, known))}"
        raise Refusal(f'there is no table "{name}"', suggest_name(name, [*known]) or there)
    return known[name]


def _print_problems(problems: Iterable[Problem]) -> None:
    for problem in problems:
        click.echo(paint_problem(problem), err=True)


def _build_problems(sql: str, errors: Iterable[ExpressionError]) -> list[Problem]:
    """Return errors with their places in the query."""
    from headrace.core.errors.problems import Problem

    return [Problem(error.message, _locate(sql, error.span), error.hint) for error in errors]


def _find_warnings(sql: str, query: TypedQuery, table: Table | None) -> list[Problem]:
    """Return warnings of what is allowed, but probably not meant."""
    from headrace.core.errors.problems import Problem
    from headrace.core.expressions.parsing.lexer import tokenize
    from headrace.core.expressions.typed import ExpressionWarning

    found = [*query.find_warnings()]
    for token in tokenize(sql.rstrip().removesuffix(";")):
        if (
            token.kind == "string"
            and token.text[0] == '"'
            and table
            and token.value in table.schema
        ):
            message = f"{token.text} is a text, and not the column of that name"
            found.append(ExpressionWarning(message, token.span, f"write `{token.value}`"))
    return [
        Problem(each.message, _locate(sql, each.span), each.hint, severity="warning")
        for each in found
    ]


def _locate(sql: str, span: Span) -> Location:
    """Return the place of a span in the query, for messages."""
    from headrace.core.errors.problems import Location

    before = sql[: span.start]
    line, start = before.count("\n"), before.rfind("\n") + 1
    text = sql[start:].partition("\n")[0]
    length = min(span.end - start, len(text)) - (span.start - start)
    return Location("query", line + 1, span.start - start + 1, max(length, 1), text)
