"""`headrace tap`: the rows that pass in a running job."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import JobName
from headrace.cli.errors import Refusal, report_unsent
from headrace.cli.pipeline_file import add_home_option
from headrace.core.types.elements import DELETE
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.cli.control.client import JobClient
    from headrace.connectors.text_table import TextTable

REJECTIONS = ("no_such_stream", "invalid_condition", "malformed")


@click.command("tap")
@click.argument("job", type=JobName())
@click.argument("stream", metavar="STEP[.OUTPUT]")
@click.option("--where", metavar="EXPR", help="Only rows that meet this condition in Spark SQL.")
@click.option("--limit", type=WholeNumber(1), metavar="N", help="End after this number of rows.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("json", "table")),
    default="table",
    show_default=True,
    help="The format of the rows.",
)
@add_home_option
def tap_command(
    job: str, stream: str, where: str | None, limit: int | None, form: str, home: str
) -> None:
    """Print rows that pass in a running job, until Ctrl-C or its end.

    JOB is the name of a pipeline or its file, STEP a source or a step of it. At most 20 rows a
    second are printed; the number of the others is printed to standard error. A condition is
    computed for at most 1,000 rows a second. The job goes on as before: nothing is written, and its
    checkpoints know nothing of it. Rows that are removed from a result have the sign -.
    """
    with report_unsent(job):
        from headrace.cli.control.client import find_client
        from headrace.cli.server.server_client import describe_start

        client = find_client(job, home)
        client.wait_for_job(lambda: describe_start(client.home))
    printer = RowPrinter(_print_json if form == "json" else TablePrinter().print_rows, limit)
    try:
        _print_events(client, {"taps": [{"from": stream, "where": where}]}, printer)
    except KeyboardInterrupt:
        printer.report_dropped()


def _print_events(client: JobClient, body: dict[str, Any], printer: RowPrinter) -> None:
    """Print the rows of a stream to its end. Raises Refusal."""
    for kind, data in client.stream_events("/v1/events", body):
        if kind == "rows":
            printer.receive(data)
            if printer.is_done:
                return
        elif kind == "error" and data["code"] == "ended":
            printer.report_dropped()
            click.echo(data["message"], err=True)
            return
        elif kind == "error":
            status = 2 if data["code"] in REJECTIONS else 1
            raise Refusal(data["message"], data["hint"], status)
    printer.report_dropped()
    raise Refusal(f"{client.home.name} is gone, and has not said why", status=1)


@dataclass(slots=True)
class RowPrinter:
    """Prints rows up to a limit, and between them how many were not printed."""

    print_rows: Callable[[list[dict[str, Any]]], None]
    limit: int | None
    printed: int = 0
    _dropped: int = 0
    _missing: list[str] = field(default_factory=list)

    @property
    def is_done(self) -> bool:
        """Whether as many rows were printed as are wanted."""
        return self.limit is not None and self.printed >= self.limit

    def receive(self, data: dict[str, Any]) -> None:
        """Print the rows of an event."""
        if data["missing_columns"] != self._missing:
            self._missing = data["missing_columns"]
            if names := ", ".join(self._missing):
                click.echo(f"the job leaves out {names}: nothing reads them later", err=True)
        rows = data["rows"]
        if self.limit is not None:
            rows = rows[: self.limit - self.printed]
        if rows:
            self.report_dropped()
            self.print_rows(rows)
        self.printed += len(rows)
        self._dropped += data["dropped"]

    def report_dropped(self) -> None:
        """Print how many rows were not printed since this was said last."""
        if self._dropped:
            click.echo(f"... {self._dropped:,} rows dropped", err=True)
        self._dropped = 0


def _print_json(rows: list[dict[str, Any]]) -> None:
    import orjson

    for row in rows:
        click.echo(orjson.dumps(row))


@dataclass(slots=True)
class TablePrinter:
    """Prints rows as a growing table, as the `console` sink does."""

    _table: TextTable | None = None
    _columns: tuple[str, ...] = ()

    def print_rows(self, rows: list[dict[str, Any]]) -> None:
        """Print rows; a change of their columns begins a new table."""
        import polars as pl

        if self._table is None or self._columns != tuple(rows[0]):
            self._columns = tuple(rows[0])
            self._table = _build_table(self._columns)
        cells = {
            name: [row[name] if name == DELETE else _format_value(row[name]) for row in rows]
            for name in self._columns
        }
        click.echo(self._table.format_rows(pl.DataFrame(cells)), nl=False)


def _build_table(columns: tuple[str, ...]) -> TextTable:
    """Build a table of texts that fits the terminal."""
    import os
    import shutil

    from headrace.connectors.text_table import TextTable
    from headrace.core.types.data_types import STRING, Field, Schema

    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    room = shutil.get_terminal_size().columns if on_terminal else None
    styled = on_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return TextTable(Schema(tuple(Field(name, STRING) for name in columns)), room, bold=styled)


def _format_value(value: object) -> str | None:
    """Return a value of JSON as text; null stays null."""
    if value is None or isinstance(value, str):
        return value
    import orjson

    return orjson.dumps(value).decode()
