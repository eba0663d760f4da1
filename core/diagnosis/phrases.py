"""Words that findings share: durations, times, lists and the settings of sources."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from headrace.core.job.statistics import format_time
from headrace.core.plan import nodes
from headrace.core.plan.formatting import format_microseconds

MAX_NAMES = 3
MIN_PAUSE_US = 10_000_000
"""The shortest time without new ones that a finding names."""

INPUT_SETTINGS = {
    "files": "`path:` of {name} must match the files, and `watch:` reads new ones",
    "kafka": "`topic:` and `start:` of {name} say what is read",
}
"""The settings that say what a source reads, by its connector."""


def join_names(names: Sequence[str]) -> str:
    """Return names as a list that is not too long.

    >>> join_names(["a"]), join_names(["a", "b", "c"]), join_names(["a", "b", "c", "d", "e"])
    ('a', 'a, b and c', 'a, b, c and 2 others')
    """
    shown, rest = list(names[:MAX_NAMES]), len(names) - MAX_NAMES
    if rest > 0:
        return f"{', '.join(shown)} and {rest} other{'s' if rest > 1 else ''}"
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def format_watermark(watermark_us: int | None) -> str:
    """Return a watermark as text."""
    return format_time(watermark_us) or "its start"


def format_interval(us: int) -> str:
    """Return a measured time in its largest whole unit.

    >>> format_interval(90_500_000), format_interval(500_000), format_interval(7_300_000_000)
    ('90s', '0s', '2h')
    """
    seconds = us // 1_000_000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def format_pause(us: int) -> str:
    """Return the time for which nothing of a kind has happened, if it is not short.

    >>> format_pause(90_500_000), format_pause(9_000_000)
    (', none in the last 90s', '')
    """
    return f", none in the last {format_interval(us)}" if us >= MIN_PAUSE_US else ""


def describe_clause(clause: str, step: str) -> str:
    """Return where a clause of a step stands; that of a query's part, as in cities@placed, in SQL.

    >>> describe_clause("where", "large"), describe_clause("key", "customers@retract")
    ('`where:` of step large', '`key:` of step customers')
    >>> describe_clause("key", "cities@placed")
    '`group by` or `on` of placed in `sql:` of step cities'
    """
    own, _, query = step.removesuffix("@retract").removesuffix("@upsert").partition("@")
    if not query:
        return f"`{clause}:` of step {own}"
    words = "`group by` or `on`" if clause == "key" else f"`{clause}`"
    return f"{words} of {query} in `sql:` of step {own}"


def describe_input(source: nodes.Source) -> str:
    """Return the settings that say what a source reads."""
    text = INPUT_SETTINGS.get(
        source.connector, f"`{source.connector}:` of {{name}} says what is read"
    )
    return text.format(name=source.name)


def suggest_idle(source: nodes.Source) -> str:
    """Return the setting with which a split without rows stops holding back event time."""
    idle = source.watermark.idle if source.watermark else None
    if idle is None:
        return f"`watermark: {{idle: 30s}}` of source {source.name}"
    now = format_microseconds(idle // timedelta(microseconds=1))
    return f"a shorter `idle:` in `watermark:` of source {source.name}, which is {now} now"
