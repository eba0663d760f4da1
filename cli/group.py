"""The group of commands: a word that is no command is answered with what was probably meant."""

from __future__ import annotations

import click

# Commands of the contract that their own issues bring. They are not in --help, but whoever has read
# about one learns that it is on its way rather than misspelt.
NOT_BUILT_YET = frozenset(("test", "top", "tap", "serve", "bench"))


class WholeNumber(click.IntRange):
    """A number of something; says what was wanted in our words."""

    def convert(self, value: int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            up = "on" if self.max is None else f"to {self.max}"
            self.fail(f'wanted a whole number from {self.min} {up}, got "{value}"', param, ctx)


class Commands(click.Group):
    """Click's group, with our answers to a wrong word."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a newcomer meets them, not the alphabet's."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; a UsageError when there is none."""
        word = args[0]
        if word.startswith("-") or word in self.commands or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        if word in NOT_BUILT_YET:
            raise click.ClickException(f"headrace {word} is not built yet")
        raise click.UsageError(self._no_such_command(word), ctx)

    def _no_such_command(self, word: str) -> str:
        from headrace.core.problems import nearest

        known = sorted(self.commands)
        near = nearest(word, (*known, *NOT_BUILT_YET))
        hint = f'did you mean "{near}"?' if near else f"there are {', '.join(known)}"
        return f'no such command "{word}", {hint}'
