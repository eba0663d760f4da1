"""Missing offsets: the records to resume from no longer exist; fail or skip, by option."""

from __future__ import annotations

from typing import Literal

from headrace.connectors.kafka.source.cluster_requests import (
    EARLIEST_TIME,
    LATEST_TIME,
    READ_UNCOMMITTED,
    ClusterRequests,
)
from headrace.connectors.kafka.source.partition_state import PartitionState, RecordChanged
from headrace.core.api.failures import ConnectorError
from headrace.core.types.lazy_dataclass import dataclass

REQUEST_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class MissingOffsetPolicy:
    """The policy of the option `on_missing_offset`."""

    name: str
    cluster: ClusterRequests
    policy: Literal["fail", "earliest", "latest"]

    async def resolve_partition(self, track: PartitionState) -> None:
        """Request the existing range, and move the partition into it or raise ConnectorError."""
        at = track.partition
        leaders = {at: track.leader if track.leader is not None else -1}

        async def ask() -> tuple[int, int]:
            earliest = await self.cluster.request_offsets(
                {at: EARLIEST_TIME}, leaders, READ_UNCOMMITTED
            )
            latest = await self.cluster.request_offsets(
                {at: LATEST_TIME}, leaders, READ_UNCOMMITTED
            )
            return earliest[at], latest[at]

        what = f'read topic "{at.topic}"'
        earliest, latest = await self.cluster.retry_work(ask, what, REQUEST_LIMIT_S)
        wanted = track.fetch_offset
        if earliest <= wanted <= latest:
            return
        if self.policy == "fail":
            raise build_missing_offset_error(track, earliest, latest)
        there = earliest if self.policy == "earliest" else latest
        self.cluster.retry.notify_user(
            f"{self.name}: partition {at} has no offset {wanted} "
            f"({format_range(earliest, latest)}): "
            f"resuming at {there}"
        )
        track.move_to(there)


def build_missing_offset_error(track: PartitionState, earliest: int, latest: int) -> ConnectorError:
    """Build the error for a job that cannot resume at its offset."""
    wanted = track.fetch_offset
    if wanted > latest:
        why = "was the topic recreated, or are these other brokers than before?"
    else:
        why = "they have expired, or were deleted."
    return ConnectorError(
        f"wanted offset {wanted}, {format_range(earliest, latest)}",
        f"{why} on_missing_offset: earliest resumes at {earliest}, latest at {latest}",
        split=track.split.name,
        position=wanted,
        final=True,
    )


def format_range(earliest: int, latest: int) -> str:
    """Describe the existing offsets.

    >>> format_range(3, 5), format_range(4, 5), format_range(5, 5)
    ('there are 3 to 4', 'there is 4', 'there are none, the next is 5')
    """
    if earliest >= latest:
        return f"there are none, the next is {latest}"
    if latest - earliest == 1:
        return f"there is {earliest}"
    return f"there are {earliest} to {latest - 1}"


def build_changed_record_error(track: PartitionState, other: RecordChanged) -> ConnectorError:
    """Build the error for a recreated topic, in which a record differs from the one read."""
    return ConnectorError(
        f"the record at offset {other.previous.offset} was of "
        f"{_format_millis(other.previous.timestamp)} "
        f"when it was read, and is of {_format_millis(other.timestamp)} now",
        "the topic was recreated under its name: start with --fresh to read it from its start",
        split=track.split.name,
        position=track.position.offset,
        final=True,
    )


def _format_millis(millis: int) -> str:
    from datetime import UTC, datetime

    try:
        at = datetime.fromtimestamp(millis / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{millis} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
