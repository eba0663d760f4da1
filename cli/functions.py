"""`headrace functions`: what an expression may call, and what each function means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from headrace.core.expressions.function import Function


def _complete(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from headrace.core.expressions.functions import TABLE

    found = sorted(name for name in TABLE if name.startswith(incomplete.lower()))
    return [CompletionItem(name, help=TABLE[name].doc) for name in found]


@click.command()
@click.argument("name", required=False, shell_complete=_complete)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: all fields of each function, for other programs.",
)
def functions(name: str | None, form: str) -> None:
    """List what expressions can call, or explain one.

    NAME is a function or an operator: `headrace functions substring`.
    """
    rows = [_row(name)] if name is not None else _rows()
    if form == "json":
        _print_json(rows)
    elif name is not None:
        _print_one(rows[0])
    else:
        _print_all(rows)


def _rows() -> list[Function]:
    from headrace.core.expressions.functions import FAMILIES

    return [row for family in FAMILIES for row in family]


def _row(name: str) -> Function:
    from headrace.core.expressions.functions import TABLE
    from headrace.core.expressions.functions.later import LATER
    from headrace.core.problems import did_you_mean

    wanted = name.lower().removesuffix("()")
    if wanted in TABLE:
        return TABLE[wanted]
    if wanted in LATER:
        raise click.ClickException(f"{wanted} is a function of Spark's that is not built yet")
    hint = did_you_mean(wanted, TABLE) or "`headrace functions` lists them all"
    raise click.ClickException(f'no such function "{name}", {hint}')


def _print_json(rows: list[Function]) -> None:
    import json

    described = [
        {
            "name": row.name,
            "family": row.family,
            "doc": row.doc,
            "signatures": row.signatures,
            "aliases": row.aliases,
            "examples": [{"expression": text, "value": value} for text, value in row.examples],
        }
        for row in rows
    ]
    click.echo(json.dumps(described, indent=2, ensure_ascii=False))


def _print_all(rows: list[Function]) -> None:
    families: dict[str, list[Function]] = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    width = max(len(row.name) for row in rows)
    for index, (family, members) in enumerate(families.items()):
        click.echo(("\n" if index else "") + click.style(family, bold=True))
        for row in members:
            click.echo(f"  {row.name:<{width}}  {row.doc}")


def _print_one(row: Function) -> None:
    for signature in row.signatures:
        click.secho(signature, bold=True)
    click.echo(f"\n{row.doc}\n")
    width = max(len(text) for text, _ in row.examples)
    for text, value in row.examples:
        click.echo(f"  {text:<{width}}  ->  {value}")
    if row.aliases:
        click.echo(f"\nalso called {', '.join(row.aliases)}")
