"""`headrace schema`: prints the YAML's JSON Schema, or a schema guessed from a data file."""

from __future__ import annotations

import click


@click.command()
@click.option("--of", "file", metavar="FILE", type=click.Path(), help="Guess from this file.")
def schema(file: str | None) -> None:
    """Print the YAML's JSON Schema, or guess a source's.

    Editors use the JSON Schema to complete and check pipeline files. --of FILE reads the beginning
    of a JSON, CSV or Parquet file (also .gz and .zst) and prints a `schema:` block to paste into a
    source.
    """
    from headrace.cli.process_limits import check_loading_limits

    check_loading_limits()
    if file is None:
        _print_json_schema()
    else:
        _print_guessed_schema(file)


def _print_json_schema() -> None:
    import json

    from headrace.connectors.registry import REGISTRY
    from headrace.core.pipeline import build_json_schema

    click.echo(json.dumps(build_json_schema(REGISTRY), indent=2))


def _print_guessed_schema(file: str) -> None:
    from headrace.connectors.guess import UnreadableFile, format_yaml_block, guess_schema

    try:
        guess = guess_schema(file)
    except UnreadableFile as error:
        raise click.ClickException(str(error)) from error
    click.echo(format_yaml_block(guess), nl=False)
    for line in guess.describe_guess():
        click.echo(line, err=True)
