"""A read_committed reader of a topic while it is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, TopicPartition

from tests.support.kafka.topics import QUIET, Record, received


class Watcher:
    """Reads topics from their beginning on, each record once."""

    def __init__(self, address: str, topics: Mapping[str, Sequence[int]]) -> None:
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": address,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "reconnect.backoff.max.ms": 200,
            **QUIET,
        }
        self._client = Consumer(settings)
        self._client.assign([TopicPartition(t, p, 0) for t, all in topics.items() for p in all])

    def more(self) -> list[tuple[str, Record]]:
        """Return the new records with their topics; none if the broker is away."""
        found = []
        while (message := self._client.poll(0.2)) is not None:
            if message.error() is None:
                found.append((str(message.topic()), received(message)))
        return found

    def close(self) -> None:
        """Read no more."""
        self._client.close()
