"""State in memory: against its model, and what it does with memory."""

from __future__ import annotations

import pytest
from hypothesis import settings

from headrace.state.memory import MemoryBackend
from tests.state.modelled import Modelled


class InMemory(Modelled):
    """The model test over the memory backend."""

    backend = MemoryBackend


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which everything happens that else takes millions of rows."""
    monkeypatch.setattr("headrace.state.runs.SMALL_ROWS", 8)
    monkeypatch.setattr("headrace.state.runs.SMALL_BYTES", 200)
    monkeypatch.setattr("headrace.state.table.LEAST_GARBAGE", 3)
    monkeypatch.setattr("headrace.state.index.LEAST_SLOTS", 4)


class TestInMemory(InMemory.TestCase):
    settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
