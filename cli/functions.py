"""`headrace functions`: the functions of expressions, their documentation, and a search in it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from headrace.core.aggregates.catalog import CatalogEntry


def _complete_function(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from headrace.core.aggregates.catalog import ENTRIES_BY_NAME

    found = sorted(name for name in ENTRIES_BY_NAME if name.startswith(incomplete.lower()))
    return [CompletionItem(name, help=ENTRIES_BY_NAME[name].doc) for name in found]


@click.command()
@click.argument("word", required=False, shell_complete=_complete_function)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: all details of each, for other programs.",
)
def functions(word: str | None, form: str) -> None:
    """List the functions of expressions, explain one, or search them.

    WORD is a function, an aggregate or an operator: `headrace functions substring`. Any other word
    lists the functions with that text in their name or description: `headrace functions position`.
    """
    from headrace.cli.process_limits import check_loading_limits

    check_loading_limits()
    from headrace.core.aggregates.catalog import ENTRIES, ENTRIES_BY_NAME

    wanted = (word or "").lower().removesuffix("()")
    one = ENTRIES_BY_NAME.get(wanted)
    found = [one] if one else list(ENTRIES) if word is None else _search(wanted)
    if form == "json":
        _print_json(found)
    elif one:
        _print_one(one)
    else:
        _print_list(found)


def _search(wanted: str) -> list[CatalogEntry]:
    """Return the entries with that text in a name or the description; raise if there are none."""
    from headrace.core.aggregates.catalog import ENTRIES, ENTRIES_BY_NAME
    from headrace.core.errors.problems import find_nearest_name
    from headrace.core.expressions.foreign_functions import FUNCTION_SIMILARITY, find_foreign_hint
    from headrace.core.expressions.functions.spark_functions import SPARK_FUNCTION_NAMES
    from headrace.core.expressions.refused_functions import find_refused_family

    named = [e for e in ENTRIES if any(wanted in name for name in (e.name, *e.aliases))]
    found = [e for e in ENTRIES if e in named or wanted in e.doc.lower()]
    foreign = find_foreign_hint(wanted)
    refused = find_refused_family(wanted)
    missing = f"{wanted} is a function of Spark that is not built yet"
    if refused:
        missing = f"{wanted} is a function of Spark that is not supported: {refused.reason}"
        foreign = refused.way_out
    is_missing = bool(refused) or wanted in SPARK_FUNCTION_NAMES
    advice = f", {foreign}" if foreign else ""
    if found:
        if is_missing:
            click.echo(f"{missing}{advice}; these have the word in their text", err=True)
        return found
    if is_missing:
        raise click.ClickException(f"{missing}{advice}")
    near = find_nearest_name(wanted, ENTRIES_BY_NAME, FUNCTION_SIMILARITY)
    hint = foreign or (f'did you mean "{near}"?' if near else "`headrace functions` lists them all")
    raise click.ClickException(f'no function has "{wanted}" in its name or text, {hint}')


def _print_json(entries: Sequence[CatalogEntry]) -> None:
    import json

    described = [
        {
            "name": entry.name,
            "family": entry.family,
            "doc": entry.doc,
            "signatures": entry.signatures,
            "aliases": entry.aliases,
            "examples": [{"expression": text, "value": value} for text, value in entry.examples],
        }
        for entry in entries
    ]
    click.echo(json.dumps(described, indent=2, ensure_ascii=False))


def _print_list(found: Sequence[CatalogEntry]) -> None:
    from headrace.core.aggregates.catalog import group_by_family

    indent = max(len(entry.name) for entry in found) + 4
    for index, (family, entries) in enumerate(group_by_family(found).items()):
        click.echo(("\n" if index else "") + click.style(family, bold=True))
        for entry in entries:
            doc = f"\n{'':{indent}}".join(_wrap_doc(entry.doc, indent))
            click.echo(f"  {entry.name:<{indent - 2}}{doc}")


def _wrap_doc(text: str, indent: int) -> list[str]:
    """Wrap the text to the terminal, next to the names; elsewhere keep one line, for `grep`."""
    if not (sys.stdout and sys.stdout.isatty()):
        return [text]
    import shutil
    import textwrap

    return textwrap.wrap(text, max(30, shutil.get_terminal_size().columns - indent))


def _print_one(entry: CatalogEntry) -> None:
    from headrace.core.aggregates.catalog import format_examples

    for signature in entry.signatures:
        click.secho(signature, bold=True)
    click.echo(f"\n{entry.doc}\n")
    for line in format_examples(entry):
        click.echo(f"  {line}")
    if entry.aliases:
        click.echo(f"\nalso called {', '.join(entry.aliases)}")
