"""Options of `headrace run`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.core.types.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from headrace.core.checkpoint.compatibility import RestoreOptions


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The parameters of one `headrace run`, under the names that click gives them."""

    pipeline: str
    overrides: tuple[str, ...]
    parallelism: int | None
    workers: str | None
    """The number of worker processes, or `auto`."""
    limit: int | None
    fresh: bool
    from_checkpoint: int | None
    from_savepoint: str | None
    """The folder of a savepoint."""
    reset_state: tuple[str, ...]
    """The steps and sources whose state or positions are dropped."""
    allow_lost_state: bool
    resume_drained: bool
    take_over: bool
    """Whether the user knows that no run of another home writes to the same bucket any more."""
    home: str
    batch: bool
    master: str | None
    conf: tuple[str, ...]
    http: int | None
    http_host: tuple[str, ...]
    otlp: str | None
    """The URL of a receiver of metrics and traces."""
    quiet: bool
    log: str
    log_file: str | None
    """The file that standard output and standard error are written to."""
    text: str | None
    """The file with the pipeline's text, if it is not the pipeline's file."""
    folder: Path
    """The pipeline's folder, absolute as the home: user code may change the working directory."""

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> RunOptions:
        """Build the options, with paths as they are before any user code runs."""
        home = os.path.abspath(parameters["home"])
        folder = Path(os.path.abspath(parameters["pipeline"])).parent
        log = parameters["log_file"]
        log_file = None if log is None else os.path.abspath(log)
        return cls(**(parameters | {"home": home, "folder": folder, "log_file": log_file}))

    @property
    def settings(self) -> tuple[str, ...]:
        """The values to override in the pipeline, including its parallelism and workers."""
        given = {"parallelism": self.parallelism, "workers": self.workers}
        return (
            *self.overrides,
            *(f"settings.{key}={value}" for key, value in given.items() if value is not None),
        )

    @property
    def restore(self) -> RestoreOptions:
        """The options of restoring state from a checkpoint or savepoint."""
        from headrace.core.checkpoint.compatibility import RestoreOptions

        return RestoreOptions(
            frozenset(self.reset_state), self.allow_lost_state, self.resume_drained
        )

    @property
    def needs_checkpoints(self) -> bool:
        """Whether an option is given that only a job with checkpoints has."""
        flags = (self.fresh, self.allow_lost_state, self.resume_drained, self.take_over)
        return any(flags) or any((self.from_checkpoint, self.from_savepoint, self.reset_state))

    def find_conflict(self) -> str:
        """Return why options exclude each other, or nothing."""
        if self.http_host and self.http is None:
            return "--http-host applies only together with --http"
        if self.fresh and self.from_checkpoint is not None:
            return "--fresh removes what --from-checkpoint resumes from"
        if self.from_savepoint is not None and (self.fresh or self.from_checkpoint is not None):
            other = "--fresh" if self.fresh else "--from-checkpoint"
            return f"wanted one starting point, got --from-savepoint and {other}"
        return ""
