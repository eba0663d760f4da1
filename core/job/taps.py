"""The taps of a job, over all its attempts: who looks at which rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from headrace.core.api.taps import PROCESS_ENDS, TapRequest, TapSample, build_rejection
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.pool import WorkerPool


@dataclass(slots=True)
class JobTaps:
    """The taps of a job, and those who get their samples."""

    _receivers: dict[TapRequest, Callable[[TapSample], None]] = field(default_factory=dict)
    _pool: WorkerPool | None = None

    def add(self, request: TapRequest, receive: Callable[[TapSample], None]) -> None:
        """Begin to sample the rows of a request, for one receiver."""
        self._receivers[request] = receive
        self._update_pool()

    def remove(self, request: TapRequest) -> None:
        """Sample the rows of a request no more."""
        if self._receivers.pop(request, None) is not None:
            self._update_pool()

    def attach(self, pool: WorkerPool) -> None:
        """Sample the rows in the workers of a new attempt."""
        self._pool = pool
        if self._receivers:
            self._update_pool()

    def detach(self) -> None:
        """Forget the workers of an attempt that ends."""
        self._pool = None

    def receive(self, sample: TapSample) -> None:
        """Pass a sample to its receiver, if it still looks; an error of it ends only its tap."""
        receiver = self._receivers.get(sample.request)
        if receiver is None:
            return
        try:
            receiver(sample)
        except PROCESS_ENDS:
            raise
        except BaseException as error:  # also a panic of Polars, which is no Exception
            self.remove(sample.request)
            receiver(TapSample(sample.request, None, 0, build_rejection(error)))

    def _update_pool(self) -> None:
        if self._pool is not None:
            self._pool.set_taps(tuple(self._receivers))
