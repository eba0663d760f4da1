"""Commits before an attempt runs: those that fail, and the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.connectors.memory import Memory, MemorySink
from headrace.core.beginning import commit_again
from headrace.core.bench import Bench
from headrace.core.contracts import ConnectorError, Surroundings
from headrace.core.ends import Ends
from headrace.core.keeping import Keeping
from headrace.core.manifest import Checkpoint
from headrace.core.messages import Handle, Restored
from headrace.core.pipeline.settings import NoRestart
from headrace.core.restart import Restarts
from headrace.state.storage.home import Home
from headrace.state.storage.memory_disk import MemoryDisk


@dataclass(slots=True)
class Committing(MemorySink):
    """A sink that records its commits, of which some fail."""

    lost: Sequence[str] = ()
    asked: list[object] = field(default_factory=list)

    async def commit(self, handle: Handle) -> None:
        """Commit a handle, if it is not lost."""
        self.asked.append(handle["key"])
        if handle["key"] in self.lost:
            raise ConnectorError(f"{handle['key']} is lost", final=True)


def test_what_is_lost_keeps_nothing_else_from_being_committed_and_all_of_it_is_told() -> None:
    home = Home(MemoryDisk(), "/jobs", "test")
    a, b = Committing(Memory(), "a", ["1", "3"]), Committing(Memory(), "b", ["5"])
    handles = [("a", "1"), ("a", "2"), ("a", "3"), ("b", "4"), ("b", "5")]
    named = tuple((sink, {"key": key}) for sink, key in handles)
    with home.held("now"):
        keeping = Keeping(home.store(home.job("now")), Restarts(NoRestart()), note=home.note)
        commit = commit_again(
            Checkpoint(1, False, Restored(), named),
            Ends(sinks={"a": a, "b": b}),
            keeping,
            Surroundings(Path(), "0" * 32, Bench()),
        )
        with pytest.raises(ConnectorError) as raised:
            asyncio.run(commit)
        assert home.noted() is None
    assert raised.value.message == "1 is lost; a: 3 is lost; b: 5 is lost"
    assert (a.asked, b.asked) == (["1", "2", "3"], ["4", "5"])
