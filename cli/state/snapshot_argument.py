"""Common parts of the commands: opening WHAT, the option --json, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from headrace.cli.errors import Refusal
from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.state_reader.step_states import StepStateReader
    from headrace.state.savepoints.snapshot_lookup import StoredSnapshot

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., object])


def add_json_option(command: F) -> F:
    """Add `--json`, which prints the result for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def report_snapshot_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command: a SnapshotError is reported with its hint and exit status."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        from headrace.core.api.snapshots import SnapshotError

        try:
            command(*args, **kwargs)
        except SnapshotError as error:
            raise Refusal(error.message, error.hint, error.exit_status) from error

    return run


@dataclass(frozen=True, slots=True)
class OpenSnapshot:
    """An open checkpoint or savepoint."""

    snapshot: StoredSnapshot

    @property
    def manifest(self) -> Any:
        """The manifest."""
        return self.snapshot.document

    def read_step(self, name: str) -> StepStateReader:
        """Return the state of a step. Raises Refusal."""
        from headrace.core.errors.problems import suggest_name
        from headrace.core.state_reader.step_states import StepStateReader

        if name not in self.snapshot.steps:
            there = ", ".join(self.snapshot.steps) or "nothing"
            near = suggest_name(name, self.snapshot.steps)
            keeps = f"{self.snapshot.title} has the state of {there}"
            raise Refusal(f'{self.snapshot.title} has no state of "{name}"', near or keeps)
        return StepStateReader.from_document(
            name, self.snapshot.document, self.snapshot.thaw_step(name)
        )

    def read_steps(self) -> Iterator[StepStateReader]:
        """Yield the state of all steps."""
        for name in self.snapshot.steps:
            yield self.read_step(name)


@contextmanager
def open_snapshot(what: str, home: str) -> Iterator[OpenSnapshot]:
    """Open the snapshot of this name; a pipeline's file means its job. Raises SnapshotError."""
    from headrace.cli.process_limits import check_process_limits
    from headrace.state.savepoints.snapshot_lookup import open_snapshot

    check_process_limits()
    with open_snapshot(resolve_job_name(what, home), home) as snapshot:
        yield OpenSnapshot(snapshot)


def resolve_job_name(what: str, home: str) -> str:
    """Replace a pipeline's file with the name of its job, also before @N."""
    import os

    from headrace.cli.control.job_lookup import find_home

    file, at, number = (what, "", "") if os.path.isfile(what) else what.rpartition("@")
    return f"{find_home(file, home).name}{at}{number}" if os.path.isfile(file) else what
