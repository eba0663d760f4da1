"""Findings of a diagnosis as lines for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headrace.cli.formatting import format_duration


def format_diagnosis(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines for a person.

    >>> about = {"name": "a", "status": "running", "rows_in": 7, "rows_out": 7}
    >>> list(format_diagnosis({**about, "time": "", "findings": []}))
    ['a is running: 7 rows in, 7 out; nothing holds it back']
    """
    rows = f"{document['rows_in']:,} rows in, {document['rows_out']:,} out"
    head = f"{document['name']} is {document['status']}: {rows}"
    if not document["findings"]:
        # The causes of a job that does not run yet are not known.
        yield f"{head}; nothing holds it back" if document["status"] == "running" else head
        return
    yield head
    yield from format_findings(document["findings"], document["time"])


def format_findings(findings: Sequence[Mapping[str, Any]], now: str) -> Iterator[str]:
    """Yield two lines for each finding: the observation, and the setting that would change it.

    >>> finding = {"part": "s", "message": "no row yet", "setting": "`path:` of s", "since": None}
    >>> list(format_findings([finding], "2026-01-31T08:00:30.000Z"))
    ['- s: no row yet', '  setting: `path:` of s']
    >>> finding["since"] = "2026-01-31T08:00:00.000Z"
    >>> next(format_findings([finding], "2026-01-31T08:00:30.000Z"))
    '- s: no row yet, for 30 s'
    """
    for each in findings:
        place = f"{each['part']}: " if each["part"] else ""
        yield f"- {place}{each['message']}{_format_since(each['since'], now)}"
        yield f"  setting: {each['setting']}"


def _format_since(since: str | None, now: str) -> str:
    try:
        passed = datetime.fromisoformat(now) - datetime.fromisoformat(str(since))
    except ValueError:
        return ""
    return f", for {format_duration(max(passed.total_seconds(), 0))}"
