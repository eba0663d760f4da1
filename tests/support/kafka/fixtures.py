"""Fixtures: a broker, one that authenticates its clients, and unused topics.

A process that runs tests has one of each for a folder, started when the first test asks for it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.kafka.broker import Broker
from tests.support.kafka.secured_broker import Secured, secured_in
from tests.support.kafka.topics import Topics


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker of the whole test run; a test that stops it starts it again."""
    with Broker(tmp_path_factory.mktemp("kafka", numbered=True)) as broker:
        yield broker


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """The other one, whose clients have to say who they are."""
    secured = secured_in(tmp_path_factory.mktemp("secured", numbered=True))
    with secured.broker:
        yield secured


@pytest.fixture
def topics(broker: Broker) -> Topics:
    """Those of the broker, as an independent client sees them."""
    return Topics(broker.address)


@pytest.fixture
def fresh() -> Callable[..., str]:
    """Return unused topic names: `fresh()`, or containing a word, `fresh("out")`."""

    def name(word: str = "topic") -> str:
        return f"{word}-{uuid.uuid4().hex[:12]}"

    return name
