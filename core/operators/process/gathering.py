"""The output of a user class as frames: each row with the time and position of its origin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.elements import EVENT_TIME, ORDER
from headrace.core.frames import pick_columns
from headrace.core.keygroups import compute_key_groups
from headrace.core.operators.process.keys import KeyCodec
from headrace.core.operators.process.outs import Collectors, add_hidden_columns
from headrace.core.operators.process.rows import FiredTimer
from headrace.core.ordinals import ORDER_TYPE
from headrace.core.types import TIMESTAMP, to_polars

if TYPE_CHECKING:
    import polars as pl


class OutputFrames:
    """The emitted rows as frames with their hidden columns."""

    def __init__(
        self, outs: Collectors, keys: KeyCodec, streams: dict[str, str], ordered: frozenset[str]
    ) -> None:
        """`streams` are the stream names of the outputs, by output name."""
        self._collectors = outs
        self._keys = keys
        self._streams = streams
        self._ordered = ordered

    def build_frames(
        self, came: pl.DataFrame, moments: list[FiredTimer]
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """Iterate over the rows of each output. Raises OutputValueError."""
        import polars as pl

        names = (EVENT_TIME, ORDER) if self._ordered else (EVENT_TIME,)
        hidden = pick_columns(came, (name for name in names if name in came.columns))
        if moments:
            hidden = _append_timers(hidden, moments, self._keys)
        for each in self._collectors:
            if not len(each):
                continue
            frame, origin = each.take()
            stream = self._streams[each.name]
            needs = names if stream in self._ordered else (EVENT_TIME,)
            of = pick_columns(hidden, (name for name in needs if name in hidden.columns))
            yield stream, add_hidden_columns(frame, pl.Series("of", origin, dtype=pl.UInt32), of)


def _append_timers(hidden: pl.DataFrame, moments: list[FiredTimer], keys: KeyCodec) -> pl.DataFrame:
    """Append the hidden columns of timers, positioned by time and key, to those of rows."""
    import polars as pl

    if not hidden.width:
        return hidden
    times = pl.Series(EVENT_TIME, [each.event_us for each in moments], dtype=pl.Int64)
    columns = [times.cast(to_polars(TIMESTAMP))]
    if ORDER in hidden.columns:
        encoded = keys.encode_cells(each.cell for each in moments)
        numbers = compute_key_groups(encoded, 1 << 31).cast(pl.Int64)
        place = {"time": times, "at": numbers, "part": pl.repeat(0, len(times), eager=True)}
        columns.append(pl.DataFrame(place).to_struct(ORDER).cast(to_polars(ORDER_TYPE)))
    return pl.concat([hidden, pl.DataFrame(columns).select(hidden.columns)])
