"""Rows of taps as events: each a JSON object, as the `stdout` sink prints it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import field
from typing import Any

import orjson

from headrace.cli.control.event_streams import StreamEvent, build_error_event
from headrace.cli.control.shared_feeds import Publish
from headrace.core.api.taps import TapError, TapRequest, TapSample
from headrace.core.job.job import Job
from headrace.core.types.data_types import Schema
from headrace.core.types.lazy_dataclass import dataclass

MAX_ROWS_PER_SECOND = 20
MAX_ROW_BYTES = 2**16
"""The largest row that is shown, as JSON; a larger one is counted as dropped."""

MAX_EVENT_BYTES = 2**18


@dataclass(slots=True)
class RowRate:
    """The limit of the rows of a tap, whose samples may come from several workers."""

    get_time_s: Callable[[], float]
    _second: float = 0.0
    _shown: int = 0

    def admit(self, rows: int) -> int:
        """Return how many of these rows may be shown now."""
        now_s = self.get_time_s()
        if now_s - self._second >= 1.0:
            self._second, self._shown = now_s, 0
        admitted = min(rows, MAX_ROWS_PER_SECOND - self._shown)
        self._shown += admitted
        return admitted


@dataclass(slots=True)
class TapFeed:
    """The rows of one tap of a job, as events."""

    job: Job
    request: TapRequest
    _rate: RowRate = field(init=False)
    _missing: list[str] = field(default_factory=list)
    """The columns that the newest rows lack."""

    async def run(self, publish: Publish) -> None:
        """Publish rows until cancelled; an error ends it."""
        from headrace.core.plan.taps import check_tap

        try:
            schema = check_tap(self.job.plan, self.request).stream.sink_schema
        except TapError as error:
            publish(self._build_error(error))
            return
        self._rate = RowRate(asyncio.get_running_loop().time)

        def receive(sample: TapSample) -> None:
            if sample.rejection is not None:
                self.job.taps.remove(self.request)
                publish(self._build_error(sample.rejection))
            else:
                publish(self._build_event(sample, schema))

        try:
            self.job.taps.add(self.request, receive)
            await asyncio.Event().wait()
        finally:
            self.job.taps.remove(self.request)

    def _build_error(self, error: TapError) -> StreamEvent:
        return build_error_event(error.code, error.message, error.hint, self.request)

    def _build_event(self, sample: TapSample, schema: Schema) -> StreamEvent:
        rows, dropped = list[Any](), sample.dropped
        if sample.rows is not None:
            shown = sample.rows.head(self._rate.admit(sample.rows.height))
            rows = [orjson.Fragment(line) for line in encode_rows(shown, schema)]
            self._missing = [name for name in schema.names if name not in shown.columns]
            dropped += sample.rows.height - len(rows)
        data = {**self.request.build_document(), "rows": rows, "dropped": dropped}
        return StreamEvent("rows", {**data, "missing_columns": self._missing}, self.request.key)


def encode_rows(rows: Any, schema: Schema) -> list[bytes]:
    """Return rows as JSON, without those that are too large.

    `rows` has some of the columns of the schema, in their order.
    """
    from headrace.connectors.formats.json_encode import JsonEncoder

    if not rows.height:
        return []
    shown = Schema(tuple(field for field in schema if field.name in rows.columns))
    lines = JsonEncoder(shown).encode(rows).splitlines()
    taken, size = list[bytes](), 0
    for line in lines:
        if len(line) <= MAX_ROW_BYTES and size + len(line) <= MAX_EVENT_BYTES:
            taken.append(line)
            size += len(line)
    return taken
