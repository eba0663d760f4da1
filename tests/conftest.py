"""The order of the tests, and what of them wants a Kafka broker.

When processes share them each takes a whole file at a time, so that what a module makes is made
once. What takes long begins first: at the end nothing is left that one process alone works at.
"""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")

HERE = Path(__file__).parent
LONGEST = ("kafka", "runtime/test_freezing.py", "recovery", "cli", "docs")
BROKERS = {"broker", "secured"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not BROKERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
            item.add_marker("slow")
    items.sort(key=turn)


def turn(item: pytest.Item) -> int:
    """The place of its file among those that take long, or the last."""
    path = item.path.relative_to(HERE)
    return next((n for n, name in enumerate(LONGEST) if path.is_relative_to(name)), len(LONGEST))
