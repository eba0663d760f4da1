"""The documents that Kafka sinks and sources store in checkpoints and notes."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from headrace.connectors.kafka.source.positions import parse_partition, parse_position
from headrace.core.api.splits import Position
from headrace.core.api.stored_documents import MalformedDocument


class TransactionHandle(msgspec.Struct):
    """The transaction to commit."""

    id: str = field(name="id")
    producer: int = field(name="producer")
    epoch: int = field(name="epoch")
    subtask: Annotated[int, Meta(ge=0)] = field(name="subtask")
    slot: Annotated[int, Meta(ge=0)] = field(name="slot")
    topics: list[str] = field(name="topics")
    rows: int = field(name="rows")
    opened_at: str = field(name="opened_at")


class TransactionalIdsNote(msgspec.Struct):
    """The transactional ids of a sink."""

    job: str = field(name="job")
    sink: str = field(name="sink")
    subtasks: Annotated[int, Meta(ge=0)] = field(name="subtasks")
    slots: Annotated[int, Meta(ge=0)] = field(name="slots")
    generation: Annotated[int, Meta(ge=0)] = field(name="generation", default=0)


def check_position(name: str, position: Position) -> None:
    """Check how far a partition was read. Raises MalformedDocument."""
    try:
        parse_partition(name)
    except ValueError:
        raise MalformedDocument(f"{name!r} is no partition") from None
    try:
        parse_position(position)
    except (KeyError, TypeError, ValueError):
        raise MalformedDocument(f"{position!r} is no position in a partition") from None
