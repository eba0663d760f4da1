"""`headrace --version`."""

from __future__ import annotations

import click


def find_installed_version() -> str:
    """Return the version of the installed package; a source tree that is not installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return "(not installed)"


def print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print the version and exit, if it was requested."""
    if wanted and not ctx.resilient_parsing:
        click.echo(f"headrace {find_installed_version()}")
        ctx.exit()
