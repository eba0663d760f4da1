"""The run that a source, sink or lookup table is opened for, and the notes it may store about its
job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Protocol

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.state import Document
from headrace.core.types.lazy_dataclass import dataclass


class JobNotes(Protocol):
    """Small documents that a source or sink stores about its job, by name; no crash loses them.

    Unlike the contents of a checkpoint, a note is durable as soon as it is written, and it outlives
    the checkpoints: a job that starts from scratch still finds it. Both methods wait for a disk.
    """

    def read(self, name: str) -> Document | None:
        """Return the document written last under the name, or None. Raises SnapshotError."""
        ...

    def write(self, name: str, document: Document) -> None:
        """Replace the document of that name; durable on return. Raises SnapshotError."""
        ...


class NoJobNotes:
    """The notes of a run that stores nothing."""

    def read(self, name: str) -> Document | None:
        """Return None."""
        return None

    def write(self, name: str, document: Document) -> None:
        """Drop the document."""


@dataclass(frozen=True, slots=True)
class CommitTiming:
    """The times that bound how long prepared output may wait for its commit."""

    interval_s: float | None
    """The interval between checkpoints; None: the only checkpoint is taken at the end."""
    timeout_s: float
    """The longest time that a checkpoint may take."""
    max_restart_pause_s: float
    """The longest pause before the next attempt."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The run that a source, sink or lookup table is opened for."""

    folder: Path
    """The folder of the pipeline; relative paths start there."""
    job_id: str
    """The job's id: 32 hexadecimal digits, made at its first start."""
    kernel_executor: KernelExecutor
    """Runs work that takes long or waits for a disk."""
    row_limit: int | None = None
    """The number of rows to read of each source; None: all."""
    request_stop: Callable[[], None] = lambda: None
    """Request the end of the job, as a user would: its output is no longer wanted."""
    snapshot_executor: KernelExecutor | None = None
    """Runs the writing of snapshots, which may take minutes and must not delay kernels."""
    is_resumed: bool = False
    """Whether the job resumes where an earlier one was left: its output is the rest of that job's
    output, so a sink must not replace what the earlier job wrote."""
    pipeline_name: str = ""
    """The pipeline's name."""
    notes: JobNotes = field(default_factory=NoJobNotes)
    notify_user: Callable[[str], None] = lambda line: None
    """Show the user one line of information; the run does not wait for an answer."""
    commit_timing: CommitTiming | None = None
    """The times between commits; None: no checkpoints are taken, output is committed at the end."""
