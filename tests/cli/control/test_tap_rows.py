"""The feed of a tap's rows leaves nothing at its job, also if the tap cannot be set."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.cli.control.event_streams import StreamEvent
from headrace.cli.control.tap_rows import TapFeed
from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.taps import TapRequest, TapSample
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.job.taps import JobTaps
from tests.support.runtime.memory_pipelines import job_of

TEXT = """
sources: {s: {memory: {data: in}, schema: {id: bigint}}}
sinks: {out: {from: s, memory: {data: out}}}
"""


class _BrokenTaps(JobTaps):
    """The taps of a job whose workers fail on every request."""

    def _update_pool(self) -> None:
        if self._receivers:
            raise ZeroDivisionError


def test_a_tap_that_cannot_be_set_is_removed(tmp_path: Path) -> None:
    job = job_of(tmp_path, TEXT, InMemoryData({}), KernelExecutor(), ChannelBounds())
    job.taps = _BrokenTaps()
    request, events = TapRequest("s"), list[StreamEvent]()
    with pytest.raises(ZeroDivisionError):
        asyncio.run(TapFeed(job, request).run(events.append))
    job.taps.receive(TapSample(request, None, 3))
    assert events == []
