"""Brokers that are away: noticed, told once, and told again when they are back.

A client tries on by itself, and shows an outage as nothing at all. So whoever sends requests says
here how each went, and gets the line that the user is to see, if there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE_S = 5.0
"""A broker that restarts, or a partition that moves, is away for less."""


@dataclass(slots=True)
class Outage:
    """Told how requests go, with the time on any clock that does not jump.

    >>> outage = Outage("bids", "localhost:9092")
    >>> outage.failed(100.0), outage.failed(104.9), outage.failed(105.0), outage.failed(110.0)
    ('', '', 'bids: no broker has answered for 5 s (localhost:9092), waiting', '')
    >>> outage.answered(117.0), outage.answered(118.0)
    ('bids: a broker is back after 17 s', '')
    """

    name: str
    """The source or sink."""
    brokers: str
    since_s: float | None = None
    """When it began, as far as anybody knows."""
    told: bool = False

    def failed(self, now_s: float, since_s: float | None = None) -> str:
        """No broker answered: what to tell, if anything. `since_s`: when it was asked."""
        if self.since_s is None:
            self.since_s = now_s if since_s is None else since_s
        away_s = now_s - self.since_s
        if self.told or away_s < PATIENCE_S:
            return ""
        self.told = True
        return f"{self.name}: no broker has answered for {away_s:.0f} s ({self.brokers}), waiting"

    def answered(self, now_s: float) -> str:
        """A broker answered: what to tell, if anything."""
        began_s, told = self.since_s, self.told
        self.since_s, self.told = None, False
        if began_s is None or not told:
            return ""
        return f"{self.name}: a broker is back after {now_s - began_s:.0f} s"
