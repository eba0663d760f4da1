"""What the commands have in common: what they look at, and what becomes of their mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from headrace.cli.failures import Refusal

if TYPE_CHECKING:
    from headrace.core.readable.step import ReadableStep
    from headrace.state.savepoints.kept import Kept

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., object])


def json_option(command: F) -> F:
    """`--json`: the same for programs."""
    return click.option("--json", "as_json", is_flag=True, help="The same, for programs.")(command)


def told(command: Callable[P, None]) -> Callable[P, None]:
    """The command, whose refusals by a store are said with their exit status."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from headrace.core.snapshots import SnapshotError

        try:
            command(*args, **kwargs)
        except SnapshotError as error:
            raise Refusal(error.message, error.hint, error.exit_status) from error

    return run


@dataclass(frozen=True, slots=True)
class Opened:
    """A checkpoint or a savepoint that is looked at."""

    kept: Kept

    @property
    def said(self) -> Any:
        """What it says of itself."""
        return self.kept.document

    def step(self, name: str) -> ReadableStep:
        """What is kept of a step. Raises Refusal."""
        from headrace.core.problems import did_you_mean
        from headrace.core.readable.step import ReadableStep

        if name not in self.kept.steps:
            there = ", ".join(self.kept.steps) or "nothing"
            near = did_you_mean(name, self.kept.steps)
            keeps = f"{self.kept.title} keeps {there}"
            raise Refusal(f'{self.kept.title} has no state of "{name}"', near or keeps)
        return ReadableStep.of(name, self.kept.document, self.kept.frozen(name))

    def steps(self) -> Iterator[ReadableStep]:
        """What is kept of all steps."""
        for name in self.kept.steps:
            yield self.step(name)


@contextmanager
def opened(what: str, home: str) -> Iterator[Opened]:
    """What a user names so; a pipeline's file stands for its job. Raises SnapshotError."""
    from headrace.state.savepoints.kept import named

    with named(by_name(what, home), home) as kept:
        yield Opened(kept)


def by_name(what: str, home: str) -> str:
    """The same, with the name of the job for a pipeline's file, also before @N."""
    import os

    from headrace.cli.control.naming import home_of

    file, at, number = (what, "", "") if os.path.isfile(what) else what.rpartition("@")
    return f"{home_of(file, home).name}{at}{number}" if os.path.isfile(file) else what
