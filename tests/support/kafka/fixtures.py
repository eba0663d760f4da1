"""Fixtures: a broker, one that authenticates its clients, and unused topics.

A process that runs tests has one of each for a folder of tests, started when the first test asks
for it and stopped after the last one: an idle broker takes 4% of a core.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests.support.kafka.broker import Broker
from tests.support.kafka.secured_broker import Secured, secured_in
from tests.support.kafka.topics import Topics

SHARING = ("kafka", "spark")
"""The folders whose tests share a broker."""

BROKER = pytest.StashKey[Broker]()
SECURED = pytest.StashKey[Secured]()


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """The broker of a folder of tests; a test that stops it starts it again."""
    folder = _find_folder(request.node)
    if BROKER not in folder.stash:
        folder.stash[BROKER] = started = Broker(tmp_path_factory.mktemp("kafka", numbered=True))
        _run_within(folder, started)
    return folder.stash[BROKER]


@pytest.fixture(scope="module")
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Secured:
    """The other one, whose clients have to say who they are."""
    folder = _find_folder(request.node)
    if SECURED not in folder.stash:
        made = secured_in(tmp_path_factory.mktemp("secured", numbered=True))
        folder.stash[SECURED] = made
        _run_within(folder, made.broker)
    return folder.stash[SECURED]


def _find_folder(module: pytest.Module) -> pytest.Directory:
    """Return the folder whose tests share a broker."""
    folders = (node for node in module.iter_parents() if isinstance(node, pytest.Directory))
    return next(folder for folder in folders if folder.path.name in SHARING)


def _run_within(folder: pytest.Directory, broker: Broker) -> None:
    """Start a broker; it is stopped when no test of the folder follows."""
    folder.addfinalizer(broker.close)
    broker.start()


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
