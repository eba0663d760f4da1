"""Common parts of the commands: opening WHAT, the option --json, and errors."""

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
    """Add `--json`, which prints the result for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def told(command: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: a SnapshotError is reported with its hint and exit status."""

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
    """An open checkpoint or savepoint."""

    kept: Kept

    @property
    def said(self) -> Any:
        """The manifest."""
        return self.kept.document

    def step(self, name: str) -> ReadableStep:
        """Return the state of a step. Raises Refusal."""
        from headrace.core.problems import did_you_mean
        from headrace.core.readable.step import ReadableStep

        if name not in self.kept.steps:
            there = ", ".join(self.kept.steps) or "nothing"
            near = did_you_mean(name, self.kept.steps)
            keeps = f"{self.kept.title} has the state of {there}"
            raise Refusal(f'{self.kept.title} has no state of "{name}"', near or keeps)
        return ReadableStep.of(name, self.kept.document, self.kept.frozen(name))

    def steps(self) -> Iterator[ReadableStep]:
        """Yield the state of all steps."""
        for name in self.kept.steps:
            yield self.step(name)


@contextmanager
def opened(what: str, home: str) -> Iterator[Opened]:
    """Open the snapshot of this name; a pipeline's file means its job. Raises SnapshotError."""
    from headrace.state.savepoints.kept import named

    with named(by_name(what, home), home) as kept:
        yield Opened(kept)


def by_name(what: str, home: str) -> str:
    """Replace a pipeline's file with the name of its job, also before @N."""
    import os

    from headrace.cli.control.naming import home_of

    file, at, number = (what, "", "") if os.path.isfile(what) else what.rpartition("@")
    return f"{home_of(file, home).name}{at}{number}" if os.path.isfile(file) else what
