"""History of runs that have ended: figures, checkpoints, and the failures of all attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.cli.server.restart_decision import RunEnd
from headrace.cli.server.run_log import RunLog
from headrace.cli.server.server_folder import JobRecord
from headrace.core.api.snapshots import format_now

HEADS = ("event", "pipeline")
SUMMARY_FIELDS = ("name", "file", "started_at", "ended_at", "status", "why", "exit_status")


def build_history(
    record: JobRecord, status: int | None, end: RunEnd, run: RunLog
) -> dict[str, object]:
    """Build the document of a run that has ended.

    The attempts of a run are numbered from 1; the failure of the last one has ended the run.
    """
    figures = run.summary or run.progress or {}
    return {
        "name": record.name,
        "file": record.file,
        "started_at": record.started_at,
        "ended_at": format_now(),
        "status": end.status,
        "why": end.reason,
        "exit_status": run.exit_status if status is None else status,
        "is_exit_seen": status is not None,
        "figures": _strip(figures),
        "checkpoints": [_strip(each) for each in run.checkpoints],
        "failures": [
            {"attempt": number, **_strip(each)} for number, each in enumerate(run.failures, 1)
        ],
    }


def summarize_history(document: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a run that a list has."""
    figures = document["figures"]
    return {
        "number": document["number"],
        **{key: document[key] for key in SUMMARY_FIELDS},
        "rows_in": figures.get("rows_in"),
        "rows_out": figures.get("rows_out"),
        "checkpoints": len(document["checkpoints"]),
        "failures": len(document["failures"]),
    }


def _strip(event: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in event.items() if key not in HEADS}
