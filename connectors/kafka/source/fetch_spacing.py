"""Spacing of fetches: how long the next fetch waits after a small response.

At some hundred records a second, each fetch would otherwise return one or two, and the fixed
costs of such batches keep the process busy and its channels full. So fetches are spaced in
proportion to the CPU time that the process has used since the fetch before the last one, which
includes what the last response has cost. After a pause that is next to nothing, and a single record
is not delayed. Measured by benchmarks/kafka_idle.
"""

from __future__ import annotations

from headrace.core.types.lazy_dataclass import dataclass

IDLE_S_PER_CPU_S = 8
LONGEST_INTERVAL_S = 0.05
SMALL_RESPONSE_BYTES = 64 << 10


@dataclass(slots=True)
class FetchSpacing:
    """The spacing of the fetches from one broker."""

    _sent_s: float = 0.0
    """Time at which the last fetch was sent."""
    _cpu_s: float | None = None
    """CPU time of the process when the last fetch was sent."""
    _earlier_cpu_s: float = 0.0
    """The same for the fetch before."""

    def start_fetch(self, now_s: float, cpu_s: float) -> None:
        """Take note of a fetch that is sent now."""
        self._earlier_cpu_s = cpu_s if self._cpu_s is None else self._cpu_s
        self._sent_s, self._cpu_s = now_s, cpu_s

    def compute_next(self, response_bytes: int, cpu_s: float) -> float:
        """Return the time of the next fetch, of the size of the response to the last one."""
        if response_bytes >= SMALL_RESPONSE_BYTES:
            return self._sent_s
        used_s = cpu_s - self._earlier_cpu_s
        return self._sent_s + min(LONGEST_INTERVAL_S, IDLE_S_PER_CPU_S * used_s)
