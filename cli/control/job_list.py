"""List of the jobs of one home folder: running ones, and ones that can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from headrace.cli.control.client import JobClient, NoAnswer, NotListening
from headrace.cli.control.job_lookup import list_homes
from headrace.cli.errors import Refusal
from headrace.cli.formatting import format_duration
from headrace.core.api.snapshots import SnapshotError
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.checkpoint_location import read_location
from headrace.state.storage.home import Home

LISTING_TIMEOUT_S = 3.0
"""The time that a job may take to answer."""

MAX_THREADS = 16

FIELDS_OF_RUNNING = (
    "uptime_s",
    "attempt",
    "rows_in",
    "rows_out",
    "in_per_s",
    "out_per_s",
    "lag_s",
    "last_failure",
    "parts",
    "workers",
)
"""The fields of a job's own answer that the list has as well."""

RESUMABLE_STATUSES = ("stopped", "killed", "damaged")
"""The statuses of jobs that do not run."""


@dataclass(frozen=True, slots=True)
class JobEntry:
    """A job in the list; if it does not run, only its newest checkpoint is known."""

    name: str
    status: str
    reason: str = ""
    """Why the job restarts, does not answer or cannot be read; else empty."""
    pid: int | None = None
    checkpoint: int | None = None
    taken_at: str | None = None
    is_drained: bool = False
    job_document: Any = None
    """The running job's own answer."""

    def build_document(self) -> dict[str, object]:
        """Return the entry as plain data."""
        document = self.job_document or {}
        return {
            "name": self.name,
            "status": self.status,
            "why": self.reason,
            "pid": self.pid,
            "checkpoint": self.checkpoint,
            "taken_at": self.taken_at,
            "drained": self.is_drained,
            **{key: document.get(key) for key in FIELDS_OF_RUNNING},
        }


def list_jobs(root: str) -> list[JobEntry]:
    """List all jobs, by name. Raises Refusal."""
    found = list_homes(root)
    with ThreadPoolExecutor(MAX_THREADS) as threads:
        every = threads.map(_describe_job, found)
        return [one for one in every if one is not None]


def format_rows(found: Sequence[JobEntry], now: datetime) -> list[tuple[str, ...]]:
    """Return the header of a table, and one row per job."""
    heads = ("job", "status", "uptime", "in/s", "out/s", "checkpoint", "taken", "")
    return [heads, *(_format_row(one, now) for one in found)]


def _format_row(one: JobEntry, now: datetime) -> tuple[str, ...]:
    number = "" if one.checkpoint is None else str(one.checkpoint)
    age = "" if one.taken_at is None else format_age(one.taken_at, now)
    note = "drained" if one.is_drained else one.reason
    if one.job_document is None:
        return (one.name, one.status, "", "", "", number, age, note)
    up, in_s, out_s = (
        one.job_document["uptime_s"],
        one.job_document["in_per_s"],
        one.job_document["out_per_s"],
    )
    rates = (format_duration(up), f"{in_s:,.0f}", f"{out_s:,.0f}")
    return (one.name, one.status, *rates, number, age, note)


def format_age(time: str, now: datetime) -> str:
    """Format how long ago a manifest's time was.

    >>> from datetime import UTC
    >>> format_age("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, 1, 10, tzinfo=UTC))
    '1 min 10 s ago'
    """
    try:
        passed = (now - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return time
    return f"{format_duration(max(passed, 0))} ago"


def _describe_job(home: Home) -> JobEntry | None:
    """Return the entry of a job, if it runs or can be resumed."""
    try:
        answer = JobClient(home).fetch_job(LISTING_TIMEOUT_S)
    except NotListening:
        return _describe_silent_job(home)
    except NoAnswer:
        return JobEntry(home.name, "silent", "it does not answer in time")
    except Refusal as error:
        return JobEntry(home.name, "silent", error.message)
    checkpoint = answer["checkpoint"] or {}
    failure = answer["failure"]
    return JobEntry(
        home.name,
        answer["status"],
        failure["message"].splitlines()[0] if failure else "",
        answer["pid"],
        checkpoint.get("number"),
        checkpoint.get("time"),
        job_document=answer,
    )


def _describe_silent_job(home: Home) -> JobEntry | None:
    """Return the entry of a job without a socket: it is starting, or does not run."""
    try:
        is_held, holder = home.find_holder()
        if is_held:
            return JobEntry(home.name, "starting", pid=holder.pid if holder else None)
        store = home.open_read_only()
        numbers = store.list_checkpoints() if store else []
        status = "killed" if holder else "stopped"
        if not store or not numbers:
            place = read_location(home)
            return JobEntry(home.name, status, f"checkpoints in {place}") if place else None
        document: Any = store.read_manifest(numbers[-1])
    except SnapshotError as error:
        return JobEntry(home.name, "damaged", error.message)
    time, drained = document["time"], bool(document.get("drained"))
    return JobEntry(home.name, status, "", None, numbers[-1], time, drained)
