"""Missing offsets: the records to resume from no longer exist; fail or skip, by option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.connectors.kafka.source.cluster import (
    EARLIEST,
    LATEST,
    UNCOMMITTED,
    Cluster,
)
from headrace.connectors.kafka.source.tracks import OtherRecord, Track
from headrace.core.contracts import ConnectorError

LONGEST_S = 10.0


@dataclass(frozen=True, slots=True)
class Missing:
    """The policy of the option `on_missing_offset`."""

    name: str
    cluster: Cluster
    policy: Literal["fail", "earliest", "latest"]

    async def resolve(self, track: Track) -> None:
        """Request the existing range, and move the partition into it or raise ConnectorError."""
        at = track.partition
        leaders = {at: track.leader if track.leader is not None else -1}

        async def ask() -> tuple[int, int]:
            earliest = await self.cluster.offsets({at: EARLIEST}, leaders, UNCOMMITTED)
            latest = await self.cluster.offsets({at: LATEST}, leaders, UNCOMMITTED)
            return earliest[at], latest[at]

        what = f'read topic "{at.topic}"'
        earliest, latest = await self.cluster.persist(ask, what, LONGEST_S)
        wanted = track.fetch_at
        if earliest <= wanted <= latest:
            return
        if self.policy == "fail":
            raise missing(track, earliest, latest)
        there = earliest if self.policy == "earliest" else latest
        self.cluster.patience.tell(
            f"{self.name}: partition {at} has no offset {wanted} ({range_text(earliest, latest)}): "
            f"resuming at {there}"
        )
        track.move(there)


def missing(track: Track, earliest: int, latest: int) -> ConnectorError:
    """Build the error for a job that cannot resume at its offset."""
    wanted = track.fetch_at
    if wanted > latest:
        why = "was the topic recreated, or are these other brokers than before?"
    else:
        why = "they have expired, or were deleted."
    return ConnectorError(
        f"wanted offset {wanted}, {range_text(earliest, latest)}",
        f"{why} on_missing_offset: earliest resumes at {earliest}, latest at {latest}",
        split=track.split.name,
        position=wanted,
        final=True,
    )


def range_text(earliest: int, latest: int) -> str:
    """Describe the existing offsets.

    >>> range_text(3, 5), range_text(4, 5), range_text(5, 5)
    ('there are 3 to 4', 'there is 4', 'there are none, the next is 5')
    """
    if earliest >= latest:
        return f"there are none, the next is {latest}"
    if latest - earliest == 1:
        return f"there is {earliest}"
    return f"there are {earliest} to {latest - 1}"


def other_record(track: Track, other: OtherRecord) -> ConnectorError:
    """Build the error for a recreated topic, in which a record differs from the one read."""
    return ConnectorError(
        f"the record at offset {other.previous.offset} was of {_time(other.previous.timestamp)} "
        f"when it was read, and is of {_time(other.timestamp)} now",
        "the topic was recreated under its name: start with --fresh to read it from its start",
        split=track.split.name,
        position=track.place.offset,
        final=True,
    )


def _time(millis: int) -> str:
    from datetime import UTC, datetime

    try:
        at = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
