"""The taps of one worker: they are set at its subtasks, and sampled while there are any."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.taps import PROCESS_ENDS, TapRequest, TapSample, build_rejection
from headrace.core.plan import nodes
from headrace.core.worker.subtask_builder import Subtask

if TYPE_CHECKING:
    import polars as pl

    from headrace.core.dataflow.row_taps import RowTap

FLUSH_INTERVAL_S = 0.25
FLUSHES_PER_SECOND = 4


class TapSampler:
    """Samples the rows of the tapped streams; `report` takes the samples."""

    def __init__(
        self,
        plan: nodes.Plan,
        kernel_executor: KernelExecutor,
        now_us: Callable[[], int],
        report: Callable[[TapSample], None],
    ) -> None:
        self._plan = plan
        self._executor = kernel_executor
        self._now_us = now_us
        self._report = report
        self._taps: dict[TapRequest, RowTap] = {}
        self._flushing: asyncio.Task[None] | None = None

    def set_taps(self, requests: Iterable[TapRequest], subtasks: Iterable[Subtask]) -> None:
        """Sample the streams of these requests, and no others."""
        wanted = dict.fromkeys(requests)
        self._taps = {request: tap for request, tap in self._taps.items() if request in wanted}
        for request in wanted:
            if request not in self._taps:
                self._add(request)
        for subtask in subtasks:
            self.install(subtask)
        if self._taps and self._flushing is None:
            self._flushing = asyncio.create_task(self._flush_periodically())
        elif not self._taps:
            self.close()

    def install(self, subtask: Subtask) -> None:
        """Set the taps of a subtask's streams, and remove those that are gone."""
        by_operator: dict[int, list[RowTap]] = defaultdict(list)
        by_stream: dict[str, list[RowTap]] = defaultdict(list)
        for request, tap in self._taps.items():
            if self._find_producer(request.stream) not in subtask.task.parts:
                continue
            if tap.point.operator is None:
                by_stream[request.stream].append(tap)
            else:
                by_operator[tap.point.operator].append(tap)

        def offer_input(operator: int, frame: pl.DataFrame) -> None:
            for tap in by_operator.get(operator, ()):
                tap.offer(frame)

        def offer_output(stream: str, frame: pl.DataFrame) -> None:
            for tap in by_stream.get(stream, ()):
                tap.offer(frame)

        if subtask.operators.chain is not None:
            subtask.operators.chain.tap = offer_input if by_operator else None
        subtask.operator_task.output.tap = offer_output if by_stream else None

    def close(self) -> None:
        """Make no more samples."""
        if self._flushing is not None:
            self._flushing.cancel()
            self._flushing = None

    def _add(self, request: TapRequest) -> None:
        # Loaded only for a job that somebody looks at.
        from headrace.core.dataflow.row_taps import RowTap, find_tap_point
        from headrace.core.plan.taps import check_tap

        try:
            tap = check_tap(self._plan, request)
            producer = self._find_producer(request.stream)
            task = next(task for task in self._plan.tasks if producer in task.parts)
            point = find_tap_point(self._plan, task, request.stream)
            self._taps[request] = RowTap(tap, point, self._now_us)
        except PROCESS_ENDS:
            raise
        except BaseException as error:  # also a panic of Polars, which is no Exception
            self._report(TapSample(request, None, 0, build_rejection(error)))

    def _find_producer(self, stream: str) -> str:
        return next(edge.producer for edge in self._plan.edges if edge.stream == stream)

    async def _flush_periodically(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(FLUSH_INTERVAL_S)
            number += 1
            taps = [*self._taps.values()]
            for sample in await self._executor.run_blocking(partial(flush_taps, taps)):
                if sample.request in self._taps:
                    self._report(sample)
                if sample.rejection is not None:
                    self._taps.pop(sample.request, None)
            if number % FLUSHES_PER_SECOND == 0:
                for tap in taps:
                    tap.start_second()


def flush_taps(taps: Sequence[RowTap]) -> list[TapSample]:
    """Return the samples of taps; the error of one does not disturb the job or other taps."""
    samples: list[TapSample | None] = []
    for tap in taps:
        try:
            samples.append(tap.flush())
        except PROCESS_ENDS:
            raise
        except BaseException as error:  # also a panic of Polars, which is no Exception
            samples.append(TapSample(tap.tap.request, None, 0, build_rejection(error)))
    return [sample for sample in samples if sample is not None]
