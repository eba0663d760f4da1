"""`headrace state query`: SQL over stored state.

The dialect is Polars' SQL (docs/decisions/0014 says why).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import JobName
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import add_home_option
from headrace.cli.state.snapshot_argument import (
    add_json_option,
    open_snapshot,
    report_snapshot_errors,
)

if TYPE_CHECKING:
    import polars as pl

    from headrace.cli.state.sql_tables import TableFactory

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

        _write_answer(_run_query(sql, build_tables(snapshot)), form, to)


def _run_query(sql: str, known: Mapping[str, TableFactory]) -> pl.DataFrame:
    """Run the query. Only tables named in it are read."""
    import re

    import polars as pl

    if re.fullmatch(r"\s*show\s+tables\s*;?\s*", sql, re.IGNORECASE):
        return pl.DataFrame({"name": [*known]})
    if re.match(rf"\s*({REJECTED_STATEMENTS})\b", sql, re.IGNORECASE):
        raise _not_a_query()
    tables = {
        name: make()
        for name, make in known.items()
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql)
    }
    try:
        with pl.SQLContext(tables, eager=True) as context:
            return context.execute(sql)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _translate_error(error, tables, known) from error


def _translate_error(
    error: BaseException, tables: Mapping[str, pl.DataFrame], known: Mapping[str, TableFactory]
) -> Refusal:
    """Convert an error of Polars into headrace's message."""
    import re

    from headrace.core.errors.problems import suggest_name

    columns = [name for frame in tables.values() for name in frame.columns]
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    if match := re.match(r"relation '(.*)' was not found", message):
        there = f"the tables are {', '.join(map(_quote_table, known))}"
        near = suggest_name(match[1], [*known])
        return Refusal(f'there is no table "{match[1]}"', near or there)
    if match := re.match(r"unable to find column \"(.*?)\"", message):
        near = suggest_name(match[1], columns)
        have = "; ".join(f"{name} has {', '.join(f.columns)}" for name, f in tables.items())
        return Refusal(f'there is no column "{match[1]}"', near or have)
    if message.startswith("statement type is not supported"):
        return _not_a_query()
    hint = ""
    if (match := re.match(r"unsupported function '(.*)'", message)) and match[1] in columns:
        hint = f'SQL has a meaning of its own for {match[1]}: the column is "{match[1]}", in quotes'
    what = message.removeprefix("sql parser error: ").removesuffix(":")
    return Refusal(f"the query is invalid: {what[:1].lower()}{what[1:200]}", hint)


def _not_a_query() -> Refusal:
    return Refusal("wanted a query, got another statement", "only SELECT is supported")


def _quote_table(table: str) -> str:
    return table if table.isidentifier() else f'"{table}"'


def _write_answer(answer: pl.DataFrame, form: str, to: str | None) -> None:
    if form == "parquet":
        assert to is not None
        answer.write_parquet(to)
        return
    text = _format_answer(answer, form, shorten=to is None)
    if to is None:
        click.echo(text)
    else:
        with open(to, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")


def _format_answer(answer: pl.DataFrame, form: str, *, shorten: bool) -> str:
    import json
    import sys

    from headrace.cli.state.values import format_table, to_plain_rows

    if form == "table":
        return format_table(answer, shorten=shorten and sys.stdout.isatty())
    rows = to_plain_rows(answer)
    if form == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False)
    return _format_csv(
        [answer.columns, *([_format_cell(value) for value in row.values()] for row in rows)]
    )


def _format_csv(lines: list[list[str]]) -> str:
    import csv
    import io

    to = io.StringIO()
    csv.writer(to, lineterminator="\n").writerows(lines)
    return to.getvalue().rstrip("\n")


def _format_cell(value: object) -> str:
    import json

    match value:
        case None:
            return ""
        case str():
            return value
    return json.dumps(value, ensure_ascii=False)
