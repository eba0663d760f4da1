"""`headrace state show`: shows the state of a step, for one key or the first rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.command_group import WholeNumber
from headrace.cli.completion import JobName
from headrace.cli.errors import Refusal
from headrace.cli.pipeline_file import add_home_option
from headrace.cli.state.snapshot_argument import (
    OpenSnapshot,
    add_json_option,
    open_snapshot,
    report_snapshot_errors,
)

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.state_reader.keys import ParsedKey
    from headrace.core.state_reader.step_states import StepStateReader


@click.command()
@click.argument("what", type=JobName())
@click.argument("step")
@click.option(
    "--key",
    help="Only this key: a value, or NAME=VALUE,NAME=VALUE. Quote commas, and a text null.",
)
@click.option("--limit", type=WholeNumber(1), default=20, show_default=True, help="Number of rows.")
@click.option("--raw", is_flag=True, help="Show the columns as they are stored.")
@add_json_option
@add_home_option
@report_snapshot_errors
def show(
    what: str, step: str, key: str | None, limit: int, raw: bool, as_json: bool, home: str
) -> None:
    """Show the state of a step: windows, results, rows of a key.

    WHAT is a job (its newest checkpoint), JOB@N for its checkpoint N, or the folder of a
    savepoint. Results are those that would be emitted if no more rows arrived.
    """
    with open_snapshot(what, home) as snapshot:
        reader = snapshot.read_step(step)
        wanted = None if key is None else _parse_key(reader, key, snapshot)
        states = {
            name: _read_first_rows(reader, name, limit, wanted, raw=raw)
            for name in reader.state_names
        }
        if as_json:
            _print_json(snapshot, reader, key, states, limit, raw=raw)
        else:
            _print_states(reader, key, states, limit, raw=raw)


def _parse_key(step: StepStateReader, key: str, snapshot: OpenSnapshot) -> ParsedKey:
    from headrace.core.state_reader.keys import InvalidKey, parse_key

    try:
        return parse_key(key, step.key, snapshot.manifest["key_groups"])
    except InvalidKey as error:
        raise Refusal(f"{step.step}: {error.message}", error.hint) from error


def _read_first_rows(
    step: StepStateReader, name: str, limit: int, wanted: ParsedKey | None, *, raw: bool
) -> pl.DataFrame | None:
    """Return the first rows, up to one more than `limit`; None if there are none."""
    import polars as pl

    frames: list[pl.DataFrame] = []
    for frame in step.read_rows(name, as_kept=raw, of=wanted):
        frames.append(frame.head(limit + 1 - sum(each.height for each in frames)))
        if sum(each.height for each in frames) > limit:
            break
    return pl.concat(frames, how="diagonal") if frames else None


def _print_states(
    step: StepStateReader,
    key: str | None,
    states: dict[str, pl.DataFrame | None],
    limit: int,
    *,
    raw: bool,
) -> None:
    import sys

    from headrace.cli.state.values import format_table

    for line in _list_notes(step, states, raw=raw):
        click.echo(line, err=True)
    for number, (name, rows) in enumerate(states.items()):
        click.echo("\n" * (number > 0) + f"{step.step} {name}: {_format_count(rows, key, limit)}")
        if rows is not None and rows.height:
            types = {} if raw else step.list_column_types(name)
            click.echo(format_table(rows.head(limit), types, shorten=sys.stdout.isatty()))


def _format_count(rows: pl.DataFrame | None, key: str | None, limit: int) -> str:
    height = 0 if rows is None else rows.height
    of = "" if key is None else f" of {key}"
    if height > limit:
        return f"the first {'row' if limit == 1 else f'{limit} rows'}{of} (--limit shows more)"
    return f"{height or 'no'} row{'' if height == 1 else 's'}{of}"


def _list_notes(
    step: StepStateReader, states: Mapping[str, pl.DataFrame | None], *, raw: bool
) -> Iterator[str]:
    from headrace.core.plan.nodes import Match
    from headrace.core.plan.states import HELD_RIGHT_ROWS

    if raw:
        return
    waiting = states.get(HELD_RIGHT_ROWS)
    has_rules = step.schema is not None and isinstance(step.schema.operation, Match)
    if has_rules and waiting is not None and waiting.height:
        yield f"{step.step}: rules that wait for the watermark are in {HELD_RIGHT_ROWS}"
    if step.raw_reason:
        yield f"{step.step} is shown as it is stored: {step.raw_reason}"
    elif step.schema is not None and step.schema.hidden_aggregates:
        names = ", ".join(step.schema.hidden_aggregates)
        yield f"{step.step} is shown without {names}, made with a secret: --raw shows them"


def _print_json(
    opened: OpenSnapshot,
    step: StepStateReader,
    key: str | None,
    states: dict[str, pl.DataFrame | None],
    limit: int,
    *,
    raw: bool,
) -> None:
    import json

    from headrace.cli.state.values import to_plain_rows

    found: dict[str, Any] = {
        name: {
            "rows": []
            if rows is None
            else to_plain_rows(rows.head(limit), {} if raw else step.list_column_types(name)),
            "more": rows is not None and rows.height > limit,
        }
        for name, rows in states.items()
    }
    document = {"title": opened.snapshot.title, "step": step.step, "key": key, "states": found}
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))
