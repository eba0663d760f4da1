"""Output of the history of a home: the runs that have ended, as a table or as JSON."""

from __future__ import annotations

import click

from headrace.cli.formatting import align_columns
from headrace.cli.server.run_history import summarize_history
from headrace.cli.server.server_folder import ServerFolder

HEADS = ("run", "job", "started", "ended", "status", "rows in", "rows out", "failures", "")
TEXT_COLUMNS = (1, 2, 3, 4, 8)


def print_history(home: str, *, as_json: bool) -> None:
    """Print the runs that have ended, the newest first; as JSON with all that is known of them."""
    folder = ServerFolder(home)
    found = (folder.read_history(number) for number in reversed(folder.list_history()))
    runs = [run for run in found if run is not None]
    if as_json:
        import orjson

        options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        click.echo(orjson.dumps(runs, option=options), nl=False)
    elif not runs:
        click.echo(f"no run of a server has ended in {home}", err=True)
    else:
        for line in align_columns([HEADS, *map(_format_run, runs)], TEXT_COLUMNS):
            click.echo(line)


def _format_run(run: dict[str, object]) -> tuple[str, ...]:
    shown = summarize_history(run)
    rows = (shown["rows_in"], shown["rows_out"])
    counts = ("" if count is None else f"{count:,}" for count in rows)
    times = (str(shown["started_at"]), str(shown["ended_at"]))
    why = str(shown["why"]).partition("\n")[0]
    name, status = str(shown["name"]), str(shown["status"])
    return (str(shown["number"]), name, *times, status, *counts, str(shown["failures"]), why)
