"""A synchronous reader as something to wait for: what comes in which order. On virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import polars as pl
import pytest

from headrace.connectors.thread_adapters import ThreadedSplitReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SourceEvent, SplitFinished, SplitReader
from headrace.core.api.splits import Position, Split
from headrace.core.testing.simulated_loop import SimulatedLoop

T = TypeVar("T")
A, B, C = (Split("s", name) for name in "abc")


@dataclass
class Counted:
    """A reader of splits with that number of chunks; it records its chunks and closed splits."""

    chunks: dict[str, int]
    fails: str = ""
    made: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def read(self, split: Split, position: Position) -> Iterator[Chunk]:
        """The chunks from that number on."""
        first = position if isinstance(position, int) else 0
        try:
            for number in range(first, self.chunks[split.name]):
                self.made.append(f"{split.name}{number}")
                if self.made[-1] == self.fails:
                    raise ConnectorError("it is gone", split=split.name)
                yield Chunk(split, pl.DataFrame(), number + 1)
        finally:
            self.closed.append(split.name)


def shown(arrival: SourceEvent | None) -> str:
    match arrival:
        case Chunk(split, _, position):
            return f"{split.name}{int(str(position)) - 1}"
        case SplitFinished(split):
            return f"{split.name}."
    return "-"


def run(work: Callable[[], Coroutine[None, None, T]]) -> T:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        return runner.run(work())


def reading_of(reader: Counted, in_order: bool = False) -> ThreadedSplitReader:
    return ThreadedSplitReader(
        reader, RunContext(Path(), "0" * 32, KernelExecutor()), in_order=in_order
    )


async def some(reading: SplitReader, count: int) -> str:
    """Fetch that number of events; a question mark stands for none."""
    found = []
    for _ in range(count):
        try:
            async with asyncio.timeout(1):
                found.append(shown(await reading.fetch()))
        except TimeoutError:
            found.append("?")
    return " ".join(found)


def assigned(*splits: Split) -> Sequence[tuple[Split, Position]]:
    return [(split, None) for split in splits]


@pytest.mark.parametrize(
    ("in_order", "came"),
    [(False, "a0 b0 a1 b1 a2 b. a. - -"), (True, "a0 a1 a2 a. b0 b1 b. - -")],
)
def test_splits_are_read_in_turn_or_one_after_the_other(in_order: bool, came: str) -> None:
    async def work() -> str:
        reading = reading_of(Counted({"a": 3, "b": 2}), in_order)
        reading.assign(assigned(A, B), last=True)
        return await some(reading, len(came.split()))

    assert run(work) == came


def test_splits_assigned_later_are_read_after_the_others() -> None:
    async def work() -> list[str]:
        reading = reading_of(Counted({"a": 1, "b": 0, "c": 1}), in_order=True)
        reading.assign([], last=False)
        found = [await some(reading, 1)]
        reading.assign(assigned(A), last=False)
        found.append(await some(reading, 3))
        waiting = asyncio.create_task(some(reading, 2))
        await asyncio.sleep(0.1)
        reading.assign([*assigned(B), (C, 0)], last=True)
        return [*found, await waiting, await some(reading, 2)]

    assert run(work) == ["?", "a0 a. ?", "b. c0", "c. -"]


def test_the_next_chunk_is_made_while_the_last_is_worked_on_also_of_the_next_split() -> None:
    reader = Counted({"a": 2, "b": 1})

    async def work() -> list[list[str]]:
        reading = reading_of(reader, in_order=True)
        reading.assign(assigned(A, B), last=True)
        made = []
        for _ in range(2):
            await reading.fetch()
            await asyncio.sleep(1)
            made.append(list(reader.made))
        return made

    assert run(work) == [["a0", "a1"], ["a0", "a1", "b0"]]


def test_nothing_of_a_split_that_is_held_is_given_and_nothing_is_lost() -> None:
    async def work() -> list[str]:
        reading = reading_of(Counted({"a": 3, "b": 3}))
        reading.assign(assigned(A, B), last=True)
        found = [await some(reading, 2)]
        reading.pause({A})
        found.append(await some(reading, 4))
        waiting = asyncio.create_task(some(reading, 3))
        await asyncio.sleep(0.1)
        reading.pause(set())
        return [*found, await waiting, await some(reading, 1)]

    assert run(work) == ["a0 b0", "b1 b2 b. ?", "a1 a2 a.", "-"]


def test_a_paused_split_ends_after_its_pending_chunks() -> None:
    async def work() -> list[str]:
        reading = reading_of(Counted({"a": 2, "b": 1}))
        reading.assign(assigned(A, B), last=True)
        found = [await some(reading, 3)]
        reading.pause({A, B})
        found.append(await some(reading, 1))
        reading.pause(set())
        return [*found, await some(reading, 3)]

    assert run(work) == ["a0 b0 a1", "?", "b. a. -"]


def test_a_paused_split_blocks_later_splits_if_they_are_ordered() -> None:
    async def work() -> list[str]:
        reading = reading_of(Counted({"a": 2, "b": 1}), in_order=True)
        reading.assign(assigned(A, B), last=True)
        found = [await some(reading, 1)]
        reading.pause({A})
        found.append(await some(reading, 2))
        reading.pause(set())
        return [*found, await some(reading, 4)]

    assert run(work) == ["a0", "? ?", "a1 a. b0 b."]


def test_giving_up_to_wait_loses_nothing() -> None:
    async def work() -> str:
        reading = reading_of(Counted({"a": 3}))
        reading.assign(assigned(A), last=True)
        waiting = asyncio.create_task(reading.fetch())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        return await some(reading, 5)

    assert run(work) == "a0 a1 a2 a. -"


def test_an_error_comes_after_the_chunks_made_before_it() -> None:
    reader = Counted({"a": 2, "b": 2}, fails="b1")

    async def work() -> list[str]:
        reading = reading_of(reader, in_order=True)
        reading.assign(assigned(A, B), last=True)
        found = [await some(reading, 4)]
        with pytest.raises(ConnectorError, match="it is gone"):
            await reading.fetch()
        await reading.close()
        return found

    assert run(work) == ["a0 a1 a. b0"]


def test_closing_closes_what_is_open() -> None:
    reader = Counted({"a": 2, "b": 2, "c": 2})

    async def work() -> None:
        reading = reading_of(reader)
        reading.assign(assigned(A, B, C), last=True)
        await some(reading, 2)
        await reading.close()

    run(work)
    assert set(reader.closed) >= {"a", "b"}
