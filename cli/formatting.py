"""Text that several commands print: aligned columns, durations, and the progress of a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from headrace.core.api.user_metrics import RoundFigures

MAX_LISTED_SPLITS = 3
"""The most splits of a source that are listed one by one."""

SplitProgress: TypeAlias = "tuple[str, int | str | None, bool]"
"""A split: its name, the next position to read, and whether it was read to its end."""


def align_columns(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> Iterator[str]:
    """Yield each row as a line of aligned cells, two blanks apart.

    The columns with an index in `left` are aligned to the left, all others to the right.

    >>> list(align_columns([("", "in"), ("orders", "5")]))
    ['        in', 'orders   5']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        aligned = (cell.ljust(w) if at in left else cell.rjust(w) for at, (cell, w) in cells)
        yield "  ".join(aligned).rstrip()


def format_duration(seconds: float) -> str:
    """Format a duration in its largest units.

    >>> format_duration(59.9), format_duration(3600), format_duration(200_000)
    ('59 s', '1 h 0 min', '2 d 7 h')
    """
    whole = int(seconds)
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    for (large, name), (small, below) in pairwise(units):
        if whole >= large:
            return f"{whole // large} {name} {whole % large // small} {below}"
    return f"{whole} s"


def format_latency(source: str, sink: str, latency: Mapping[str, float]) -> str:
    """Format the latency from a source to a sink.

    >>> format_latency("orders", "out", {"markers": 5, "p50_s": 0.0123, "p99_s": 1.5})
    'latency from orders to out: p50 12.3 ms, p99 1,500.0 ms, of the last 5 markers'
    """
    p50, p99 = (f"{1000 * latency[name]:,.1f} ms" for name in ("p50_s", "p99_s"))
    markers = "the last marker"
    if latency["markers"] > 1:
        markers = f"the last {latency['markers']:,} markers"
    return f"latency from {source} to {sink}: p50 {p50}, p99 {p99}, of {markers}"


def format_metrics(part: str, metrics: Mapping[str, float]) -> str:
    """Format the metrics of a part as a line.

    >>> format_metrics("ranks", {"rounds": 57, "round_seconds": 0.25})
    'metrics of ranks: rounds 57, round_seconds 0.25'
    """
    return f"metrics of {part}: {', '.join(f'{name} {value:,}' for name, value in metrics.items())}"


def format_rounds(part: str, rounds: Sequence[RoundFigures]) -> Iterator[str]:
    """Format the rounds of a loop as a table, with the number of those that are not listed.

    >>> from headrace.core.api.user_metrics import RoundFigures
    >>> rounds = [RoundFigures(1, 1_040, 0.5), RoundFigures(2, 8, 0.25), RoundFigures(9, 0, 0.125)]
    >>> for line in format_rounds("ranks", rounds):
    ...     print(line)
    rounds of ranks  rows changed  seconds
                  1         1,040    0.500
                  2             8    0.250
             6 more
                  9             0    0.125
    """
    if not rounds:
        return
    rows = [(f"rounds of {part}", "rows changed", "seconds")]
    before = rounds[0].number - 1
    for each in rounds:
        if missing := each.number - before - 1:
            rows.append((f"{missing:,} more", "", ""))
        changed = "" if each.rows_changed is None else f"{each.rows_changed:,}"
        rows.append((f"{each.number:,}", changed, f"{each.seconds:,.3f}"))
        before = each.number
    yield from align_columns(rows, left=())


def describe_progress(splits: Sequence[SplitProgress]) -> str:
    """Describe how far a source has been read.

    >>> describe_progress([("a", 12, True), ("b", 7, False)])
    'b from 7, 1 read to its end'
    """
    open_ = [(name, at) for name, at, ended in splits if not ended]
    begun = [f"{name} from {at}" for name, at in open_ if at is not None]
    listed = begun[:MAX_LISTED_SPLITS]
    if len(begun) > MAX_LISTED_SPLITS:
        listed.append(f"{len(begun) - MAX_LISTED_SPLITS} more in progress")
    if unread := len(open_) - len(begun):
        listed.append(f"{unread} not started")
    if ended := len(splits) - len(open_):
        listed.append(f"{ended} read to {'its' if ended == 1 else 'their'} end")
    return ", ".join(listed) or "nothing read yet"
