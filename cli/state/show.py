"""`headrace state show`: shows the state of a step, for one key or the first rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.completion import JobName
from headrace.cli.failures import Refusal
from headrace.cli.group import WholeNumber
from headrace.cli.pipelines import home_option
from headrace.cli.state.opened import Opened, json_option, opened, told

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.readable.lookup import Wanted
    from headrace.core.readable.step import ReadableStep


@click.command()
@click.argument("what", type=JobName())
@click.argument("step")
@click.option(
    "--key",
    help="Only this key: a value, or NAME=VALUE,NAME=VALUE. Quote commas, and a text null.",
)
@click.option("--limit", type=WholeNumber(1), default=20, show_default=True, help="Number of rows.")
@click.option("--raw", is_flag=True, help="Show the columns as they are stored.")
@json_option
@home_option
@told
def show(
    what: str, step: str, key: str | None, limit: int, raw: bool, as_json: bool, home: str
) -> None:
    """Show the state of a step: windows, results, rows of a key.

    WHAT is a job (its newest checkpoint), JOB@N for its checkpoint N, or the folder of a
    savepoint. Results are those that would be emitted if no more rows arrived.
    """
    with opened(what, home) as kept:
        found = kept.step(step)
        wanted = None if key is None else _wanted(found, key, kept)
        states = {name: _first(found, name, limit, wanted, raw=raw) for name in found.names}
        if as_json:
            _print_json(kept, found, key, states, limit)
        else:
            _print(found, key, states, limit, raw=raw)


def _wanted(step: ReadableStep, key: str, kept: Opened) -> Wanted:
    from headrace.core.readable.lookup import NoSuchKey, wanted

    try:
        return wanted(key, step.key, kept.said["key_groups"])
    except NoSuchKey as error:
        raise Refusal(f"{step.step}: {error.message}", error.hint) from error


def _first(
    step: ReadableStep, name: str, limit: int, wanted: Wanted | None, *, raw: bool
) -> pl.DataFrame | None:
    """Return the first rows, up to one more than `limit`; None if there are none."""
    import polars as pl

    frames: list[pl.DataFrame] = []
    for frame in step.rows(name, as_kept=raw, of=wanted):
        frames.append(frame.head(limit + 1 - sum(each.height for each in frames)))
        if sum(each.height for each in frames) > limit:
            break
    return pl.concat(frames, how="diagonal") if frames else None


def _print(
    step: ReadableStep,
    key: str | None,
    states: dict[str, pl.DataFrame | None],
    limit: int,
    *,
    raw: bool,
) -> None:
    import sys

    from headrace.cli.state.values import table

    for line in _notes(step, raw=raw):
        click.echo(line, err=True)
    for number, (name, rows) in enumerate(states.items()):
        click.echo("\n" * (number > 0) + f"{step.step} {name}: {_count(rows, key, limit)}")
        if rows is not None and rows.height:
            click.echo(table(rows.head(limit), shorten=sys.stdout.isatty()))


def _count(rows: pl.DataFrame | None, key: str | None, limit: int) -> str:
    height = 0 if rows is None else rows.height
    of = "" if key is None else f" of {key}"
    if height > limit:
        return f"the first {'row' if limit == 1 else f'{limit} rows'}{of} (--limit shows more)"
    return f"{height or 'no'} row{'' if height == 1 else 's'}{of}"


def _notes(step: ReadableStep, *, raw: bool) -> Iterator[str]:
    if raw:
        return
    if step.why_raw:
        yield f"{step.step} is shown as it is stored: {step.why_raw}"
    elif step.meaning is not None and step.meaning.hidden:
        names = ", ".join(step.meaning.hidden)
        yield f"{step.step} is shown without {names}, made with a secret: --raw shows them"


def _print_json(
    opened: Opened,
    step: ReadableStep,
    key: str | None,
    states: dict[str, pl.DataFrame | None],
    limit: int,
) -> None:
    import json

    from headrace.cli.state.values import plain

    found: dict[str, Any] = {
        name: {
            "rows": [] if rows is None else plain(rows.head(limit)),
            "more": rows is not None and rows.height > limit,
        }
        for name, rows in states.items()
    }
    said = {"title": opened.kept.title, "step": step.step, "key": key, "states": found}
    click.echo(json.dumps(said, indent=2, ensure_ascii=False))
