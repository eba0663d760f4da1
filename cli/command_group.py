"""The group of all commands, which suggests the nearest one for an unknown word.

The option `--version` and the argument type of whole numbers are here too.
"""

from __future__ import annotations

import click

# Commands that are planned. They are not in --help, but a user who has read about one learns
# that it is not built yet rather than misspelt.
PLANNED_COMMANDS = frozenset(("bench",))


class WholeNumber(click.IntRange):
    """A whole number, with headrace's error message."""

    def convert(self, value: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Convert the value to a number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            up = "on" if self.max is None else f"to {self.max}"
            self.fail(f'wanted a whole number from {self.min} {up}, got "{value}"', param, ctx)


class CommandGroup(click.Group):
    """Click's group, with headrace's error messages for unknown commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List commands in the order in which a new user needs them, not alphabetically."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word. Raises UsageError if there is none."""
        word = args[0]
        if word.startswith("-") or word in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if word in PLANNED_COMMANDS:
            raise click.ClickException(f"headrace {word} is not built yet")
        raise click.UsageError(self._no_such_command(word), ctx)

    def _no_such_command(self, word: str) -> str:
        from headrace.core.errors.problems import find_nearest_name

        known = sorted(self.commands)
        near = find_nearest_name(word, (*known, *PLANNED_COMMANDS))
        hint = f'did you mean "{near}"?' if near else f"there are {', '.join(known)}"
        return f'no such command "{word}", {hint}'


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
