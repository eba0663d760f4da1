"""List of the jobs of one home folder: running ones, and ones that can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from headrace.cli.control.client import Client, NoAnswer, NotThere
from headrace.cli.control.naming import homes
from headrace.cli.failures import Refusal
from headrace.core.snapshots import SnapshotError
from headrace.state.storage.elsewhere import place_of
from headrace.state.storage.home import Home

PATIENCE_S = 3.0
"""The time that a job may take to answer."""

THREADS = 16

RESUMABLE = ("stopped", "killed", "damaged")
"""The statuses of jobs that do not run."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A job in the list; if it does not run, only its newest checkpoint is known."""

    name: str
    status: str
    why: str = ""
    """Why the job restarts, does not answer or cannot be read; else empty."""
    pid: int | None = None
    checkpoint: int | None = None
    taken_at: str | None = None
    drained: bool = False
    said: Any = None
    """The running job's own answer."""

    def document(self) -> dict[str, object]:
        """Return the entry as plain data."""
        said = self.said or {}
        return {
            "name": self.name,
            "status": self.status,
            "why": self.why,
            "pid": self.pid,
            "checkpoint": self.checkpoint,
            "taken_at": self.taken_at,
            "drained": self.drained,
            **{
                key: said.get(key)
                for key in ("uptime_s", "attempt", "rows_in", "rows_out", "in_per_s", "out_per_s")
            },
        }


def listed(root: str) -> list[Listed]:
    """List all jobs, by name. Raises Refusal."""
    found = homes(root)
    with ThreadPoolExecutor(THREADS) as threads:
        every = threads.map(_listed, found)
        return [one for one in every if one is not None]


def rows(found: Sequence[Listed], now: datetime) -> list[tuple[str, ...]]:
    """Return the header of a table, and one row per job."""
    heads = ("job", "status", "uptime", "in/s", "out/s", "checkpoint", "taken", "")
    return [heads, *(_row(one, now) for one in found)]


def _row(one: Listed, now: datetime) -> tuple[str, ...]:
    number = "" if one.checkpoint is None else str(one.checkpoint)
    taken = "" if one.taken_at is None else ago(one.taken_at, now)
    note = "drained" if one.drained else one.why
    if one.said is None:
        return (one.name, one.status, "", "", "", number, taken, note)
    up, in_s, out_s = one.said["uptime_s"], one.said["in_per_s"], one.said["out_per_s"]
    rates = (length(up), f"{in_s:,.0f}", f"{out_s:,.0f}")
    return (one.name, one.status, *rates, number, taken, note)


def length(seconds: float) -> str:
    """Format a duration in its largest units.

    >>> length(59.9), length(3600), length(200_000)
    ('59 s', '1 h 0 min', '2 d 7 h')
    """
    whole = int(seconds)
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    for (large, name), (small, below) in pairwise(units):
        if whole >= large:
            return f"{whole // large} {name} {whole % large // small} {below}"
    return f"{whole} s"


def ago(time: str, now: datetime) -> str:
    """Format how long ago a manifest's time was.

    >>> from datetime import UTC
    >>> ago("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, 1, 10, tzinfo=UTC))
    '1 min 10 s ago'
    """
    try:
        passed = (now - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return time
    return f"{length(max(passed, 0))} ago"


def _listed(home: Home) -> Listed | None:
    """Return the entry of a job, if it runs or can be resumed."""
    try:
        said = Client(home).job(PATIENCE_S)
    except NotThere:
        return _silent(home)
    except NoAnswer:
        return Listed(home.name, "silent", "it does not answer in time")
    except Refusal as error:
        return Listed(home.name, "silent", error.message)
    checkpoint = said["checkpoint"] or {}
    failure = said["failure"]
    return Listed(
        home.name,
        said["status"],
        failure["message"].splitlines()[0] if failure else "",
        said["pid"],
        checkpoint.get("number"),
        checkpoint.get("time"),
        said=said,
    )


def _silent(home: Home) -> Listed | None:
    """Return the entry of a job without a socket: it is starting, or does not run."""
    try:
        held, holder = home.holder()
        if held:
            return Listed(home.name, "starting", pid=holder.pid if holder else None)
        store = home.looked_at()
        numbers = store.manifests() if store else []
        status = "killed" if holder else "stopped"
        if not store or not numbers:
            place = place_of(home)
            return Listed(home.name, status, f"checkpoints in {place}") if place else None
        document: Any = store.manifest(numbers[-1])
    except SnapshotError as error:
        return Listed(home.name, "damaged", error.message)
    time, drained = document["time"], bool(document.get("drained"))
    return Listed(home.name, status, "", None, numbers[-1], time, drained)
