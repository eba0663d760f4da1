"""Options that say what a run starts from: a checkpoint, a savepoint, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class StartOptions:
    """The starting point requested of `run`; by default the newest checkpoint."""

    home_root: str
    fresh: bool = False
    checkpoint: int | None = None
    reset: frozenset[str] = frozenset()
    """The steps and sources whose state or positions are dropped."""
    allow_lost_state: bool = False
    """Whether state that a changed pipeline no longer uses may be dropped."""
    resume_drained: bool = False
    """Whether to resume a job that was drained."""
    savepoint: str | None = None
    """The folder of a savepoint; then `number` is None."""
    take_over: bool = False
    """Whether the user knows that no run of another home writes to the same bucket any more."""


def format_now() -> str:
    """Return the current time in the format of manifests."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
