"""The brokers that the tests of this folder share."""

from tests.support.kafka.fixtures import broker, fresh, secured, topics

__all__ = ["broker", "fresh", "secured", "topics"]
