"""Detection of outages: unreachable brokers are reported once, and once more when they are back.

A client retries silently, so an outage would go unnoticed. Therefore each sender of requests
records their results here, and gets the line to show to the user, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

REPORT_AFTER_S = 5.0
"""Seconds of an outage before it is reported; a restarting broker is away for less."""


@dataclass(slots=True)
class Outage:
    """Tracks the results of requests, with times of any monotonic clock.

    >>> outage = Outage("bids", "localhost:9092")
    >>> outage.failed(100.0), outage.failed(104.9), outage.failed(105.0), outage.failed(110.0)
    ('', '', 'bids: no broker has answered for 5 s (localhost:9092), waiting', '')
    >>> outage.answered(117.0), outage.answered(118.0)
    ('bids: a broker is back after 17 s', '')
    """

    name: str
    """The source or sink."""
    brokers: str
    started_at_s: float | None = None
    """The start of the outage, as far as known."""
    is_reported: bool = False

    def record_failure(self, now_s: float, since_s: float | None = None) -> str:
        """Record a request of `since_s` without an answer; return the line to report, if any."""
        if self.started_at_s is None:
            self.started_at_s = now_s if since_s is None else since_s
        away_s = now_s - self.started_at_s
        if self.is_reported or away_s < REPORT_AFTER_S:
            return ""
        self.is_reported = True
        return f"{self.name}: no broker has answered for {away_s:.0f} s ({self.brokers}), waiting"

    def record_answer(self, now_s: float) -> str:
        """Record that a broker answered; return the line to report, if any."""
        began_s, told = self.started_at_s, self.is_reported
        self.started_at_s, self.is_reported = None, False
        if began_s is None or not told:
            return ""
        return f"{self.name}: a broker is back after {now_s - began_s:.0f} s"
