"""`headrace state query`: SQL over stored state.

The dialect is Polars' SQL (docs/decisions/0014 says why).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import Refusal
from headrace.cli.pipelines import home_option
from headrace.cli.state.opened import json_option, opened, told

if TYPE_CHECKING:
    import polars as pl

    from headrace.cli.state.tables import Made

OTHER_STATEMENTS = "alter|create|delete|drop|insert|truncate|update"
FORMATS = ("table", "csv", "json", "parquet")


@click.command()
@click.argument("what", type=JobName())
@click.argument("sql")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--to", metavar="FILE", type=click.Path(dir_okay=False), help="Write to this file.")
@json_option
@home_option
@told
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
    with opened(what, home) as kept:
        from headrace.cli.state.tables import tables

        _write(_asked(sql, tables(kept)), form, to)


def _asked(sql: str, known: Mapping[str, Made]) -> pl.DataFrame:
    """Run the query. Only tables named in it are read."""
    import re

    import polars as pl

    if re.fullmatch(r"\s*show\s+tables\s*;?\s*", sql, re.IGNORECASE):
        return pl.DataFrame({"name": [*known]})
    if re.match(rf"\s*({OTHER_STATEMENTS})\b", sql, re.IGNORECASE):
        raise _no_query()
    asked = {
        name: make()
        for name, make in known.items()
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql)
    }
    try:
        with pl.SQLContext(asked, eager=True) as context:
            return context.execute(sql)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _refused(error, asked, known) from error


def _refused(
    error: BaseException, asked: Mapping[str, pl.DataFrame], known: Mapping[str, Made]
) -> Refusal:
    """Convert an error of Polars into headrace's message."""
    import re

    from headrace.core.problems import did_you_mean

    columns = [name for frame in asked.values() for name in frame.columns]
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    if found := re.match(r"relation '(.*)' was not found", said):
        there = f"the tables are {', '.join(map(_named, known))}"
        near = did_you_mean(found[1], [*known])
        return Refusal(f'there is no table "{found[1]}"', near or there)
    if found := re.match(r"unable to find column \"(.*?)\"", said):
        near = did_you_mean(found[1], columns)
        have = "; ".join(f"{name} has {', '.join(f.columns)}" for name, f in asked.items())
        return Refusal(f'there is no column "{found[1]}"', near or have)
    if said.startswith("statement type is not supported"):
        return _no_query()
    hint = ""
    if (found := re.match(r"unsupported function '(.*)'", said)) and found[1] in columns:
        hint = f'SQL has a meaning of its own for {found[1]}: the column is "{found[1]}", in quotes'
    what = said.removeprefix("sql parser error: ").removesuffix(":")
    return Refusal(f"the query is invalid: {what[:1].lower()}{what[1:200]}", hint)


def _no_query() -> Refusal:
    return Refusal("wanted a query, got another statement", "only SELECT is supported")


def _named(table: str) -> str:
    return table if table.isidentifier() else f'"{table}"'


def _write(answer: pl.DataFrame, form: str, to: str | None) -> None:
    if form == "parquet":
        assert to is not None
        answer.write_parquet(to)
        return
    text = _text(answer, form, shorten=to is None)
    if to is None:
        click.echo(text)
    else:
        with open(to, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")


def _text(answer: pl.DataFrame, form: str, *, shorten: bool) -> str:
    import json
    import sys

    from headrace.cli.state.values import plain, table

    if form == "table":
        return table(answer, shorten=shorten and sys.stdout.isatty())
    rows = plain(answer)
    if form == "json":
        return json.dumps(rows, indent=2, ensure_ascii=False)
    return _csv([answer.columns, *([_cell(value) for value in row.values()] for row in rows)])


def _csv(lines: list[list[str]]) -> str:
    import csv
    import io

    to = io.StringIO()
    csv.writer(to, lineterminator="\n").writerows(lines)
    return to.getvalue().rstrip("\n")


def _cell(value: object) -> str:
    import json

    match value:
        case None:
            return ""
        case str():
            return value
    return json.dumps(value, ensure_ascii=False)
