"""`headrace --version`."""

from __future__ import annotations

import click


def installed_version() -> str:
    """The version of the installed package; a source tree that was never installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("headrace")
    except PackageNotFoundError:
        return "(not installed)"


def print_version(ctx: click.Context, option: click.Parameter, wanted: bool) -> None:
    """Print it and leave, when it was asked for."""
    if wanted and not ctx.resilient_parsing:
        click.echo(f"headrace {installed_version()}")
        ctx.exit()
