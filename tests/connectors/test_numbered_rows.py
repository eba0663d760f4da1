"""Generated rows are a function of their number: the same at any parallelism, replayable."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.generate import GenerateSource, _ColumnComputer
from headrace.connectors.memory import InMemoryData
from headrace.connectors.nexmark import STREAMS
from headrace.connectors.nexmark_events import (
    NexmarkEvents,
    count_events_for_rows,
    list_event_numbers,
)
from headrace.connectors.numbered_rows import NumberedRows, create_numbered_reader
from headrace.connectors.registry import REGISTRY
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SplitFinished
from headrace.core.api.splits import Split
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.expressions.typed import DEFAULT_MAX_VALUE
from headrace.core.job.job import Job, JobOutcome
from headrace.core.job.spec import JobSpec
from headrace.core.pipeline.loader import load_pipeline
from headrace.core.pipeline.text import Text
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.state.memory.backend import MemoryBackend
from tests.support.runtime.memory_pipelines import plan_of, run_simulated


def run(folder: Path, source: str, parallelism: int, limit: int | None = None) -> pl.DataFrame:
    """The rows of a source, as a sink sees them."""
    memory, outcome = simulate(folder, source, f"{{parallelism: {parallelism}}}", limit)
    assert outcome.failure is None, outcome.failure
    return pl.concat(memory.outputs["out"])


def simulate(
    folder: Path, source: str, settings: str, limit: int | None = None
) -> tuple[InMemoryData, JobOutcome]:
    """Run a source into memory with these settings."""
    memory = InMemoryData()
    connectors = {**REGISTRY, "memory": memory.build_connector()}
    text = f"""
settings: {settings}
sources:
  s: {{{source}}}
sinks:
  out: {{from: s, memory: {{data: out}}}}
"""
    plan = plan_of(folder, text, connectors)
    surroundings = RunContext(folder, "0" * 32, KernelExecutor(), limit)
    setting = OperatorContext(lambda: 0, folder, frozenset(("s",)), MemoryBackend())
    return memory, run_simulated(Job(JobSpec(plan, connectors, surroundings, setting)), seed=1)


@pytest.mark.parametrize("stream", STREAMS)
def test_any_cut_of_the_numbers_gives_the_same_events(stream: str) -> None:
    names = [column.split()[0] for column in STREAMS[stream].split(", ")]
    events = NexmarkEvents(stream, 7, 100.0)
    whole = events.make_frame(0, 1000, names)
    pieces = [events.make_frame(at, at + 37, names) for at in range(0, 1000, 37)]
    assert (
        pl.concat(pieces)
        .filter(pl.col("date_time") < whole["date_time"].max())
        .equals(whole.filter(pl.col("date_time") < whole["date_time"].max()))
    )
    assert whole.null_count().sum_horizontal().item() == 0
    assert not whole.equals(NexmarkEvents(stream, 8, 100.0).make_frame(0, 1000, names))


def test_of_fifty_events_one_is_a_person_three_are_auctions_the_rest_bids() -> None:
    counts = {stream: len(list_event_numbers(stream, 0, 5000)) for stream in STREAMS}
    assert counts == {"persons": 100, "auctions": 300, "bids": 4600}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 46, 47, 100])
def test_the_event_count_for_a_number_of_rows_is_the_least(stream: str, rows: int) -> None:
    enough = count_events_for_rows(stream, rows)
    assert len(list_event_numbers(stream, 0, enough)) == rows
    assert len(list_event_numbers(stream, 0, enough - 1)) == rows - 1


def test_bids_are_for_auctions_and_by_persons_that_exist() -> None:
    bids = NexmarkEvents("bids", 1, 100.0).make_frame(0, 50_000, ["auction", "bidder", "price"])
    assert bids["auction"].min() == 1000
    assert int(bids["auction"].max()) < 1000 + 3 * 1000  # type: ignore[arg-type]
    assert int(bids["bidder"].max()) <= 1000 + 1000  # type: ignore[arg-type]
    assert int(bids["price"].min()) >= 100  # type: ignore[arg-type]


@pytest.mark.parametrize("parallelism", [1, 3])
def test_generated_rows_do_not_depend_on_parallelism(tmp_path: Path, parallelism: int) -> None:
    rows = run(tmp_path, "generate: {rows: 100K, columns: {a: id, b: id is null}}", parallelism)
    assert rows.sort("a")["a"].to_list() == list(range(100_000))
    assert not rows["b"].any()


def test_a_limit_is_in_rows_of_the_source(tmp_path: Path) -> None:
    assert run(tmp_path, "nexmark: {stream: auctions}", 1, limit=10).height == 10
    assert run(tmp_path, "generate: {columns: {a: id}}", 2, limit=10).height == 10


def test_a_rate_sets_the_pace_and_the_event_time(tmp_path: Path) -> None:
    rows = run(tmp_path, "nexmark: {events: 500, rate: 1000/s}, event_time: date_time", 1)
    times = rows["date_time"]
    seconds = (times.max() - times.min()).total_seconds()  # type: ignore[operator, union-attr]
    assert 0.45 < seconds < 0.5


def ids(first: int, last: int) -> pl.DataFrame:
    return pl.DataFrame({"id": range(first, last)})


def test_reading_resumes_from_a_position() -> None:
    numbers = NumberedRows("s", ids, 200_000, None, 2)
    split = numbers.list_splits()[1]
    chunks = list(numbers.read(split, None))
    assert [c.position for c in chunks] == [32768 * block for block in (3, 5, 7)]
    again = list(numbers.read(split, chunks[0].position))
    assert [c.frame["id"][0] for c in again] == [c.frame["id"][0] for c in chunks[1:]]


@pytest.mark.parametrize("splits", [1, 3])
def test_reading_goes_on_within_a_block_that_was_cut(splits: int) -> None:
    def halve(first: int, last: int) -> Iterator[tuple[int, int]]:
        middle = (first + last) // 2
        yield from ((first, middle), (middle, last)) if last - first > 1 else ((first, last),)

    numbers = NumberedRows("s", ids, 70_000, None, splits, cut_range=halve)
    found = []
    for split in numbers.list_splits():
        chunks = list(numbers.read(split, None))
        found += [chunk.frame for chunk in chunks]
        for at, chunk in enumerate(chunks):
            rest = [later.frame for later in numbers.read(split, chunk.position)]
            left = sum(later.frame.height for later in chunks[at + 1 :])
            assert sum(frame.height for frame in rest) == left
    assert sorted(pl.concat(found)["id"]) == list(range(70_000))


def test_generated_values_fill_memory_only_in_parts(tmp_path: Path) -> None:
    source = "generate: {rows: 300, columns: {v: \"length(repeat('x', 1000000))\"}}"
    assert run(tmp_path, source, 2)["v"].to_list() == [1_000_000] * 300
    computer = _ColumnComputer(
        GenerateSource.model_validate({"columns": {Text("v"): Text("repeat('x', 1000000)")}}),
        ["v"],
        DEFAULT_MAX_VALUE,
    )
    sizes = [last - first for first, last in computer.cut_range(0, 300)]
    assert sizes == [67] * 4 + [32]


@pytest.mark.parametrize(("max_value", "failure"), [("1000B", "1,200 bytes"), ("1200B", "")])
def test_the_largest_generated_value_is_a_setting(
    tmp_path: Path, max_value: str, failure: str
) -> None:
    source = "generate: {rows: 5, columns: {v: \"repeat('x', cast(id * 300 as int))\"}}"
    _, outcome = simulate(tmp_path, source, settings=f"{{max_value: {max_value}}}")
    message = f"repeat would make a value of {failure}, more than max_value, 1,000"
    assert (outcome.failure.message if outcome.failure else "") == (failure and message)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("rate", [100.0, 70_000.0, None])
def test_reading_resumes_at_another_rate_or_parallelism(splits: int, rate: float | None) -> None:
    before = NumberedRows("s", ids, 100_000, 5_000.0, splits)
    read, rows = [], []
    for split in before.list_splits():
        chunks = list(islice(before.read(split, None), 3))
        read += [chunk.frame for chunk in chunks]
        after = NumberedRows("s", ids, 100_000, rate, splits + 1)
        rows += [chunk.frame for chunk in after.read(split, chunks[-1].position)]
    assert sorted(pl.concat([*read, *rows])["id"]) == list(range(100_000))


def test_a_generated_row_without_event_time_is_bad_and_has_its_number(tmp_path: Path) -> None:
    memory = InMemoryData()
    connectors = {**REGISTRY, "memory": memory.build_connector()}
    text = """
settings: {parallelism: 2}
sources:
  s:
    generate: {rows: 5, columns: {x: id, at: "case when id <> 3 then timestamp_seconds(id) end"}}
    event_time: at
    on_error: {to: failed}
sinks:
  out: {from: s, memory: {data: out}}
  bad: {from: failed, memory: {data: bad}}
"""
    plan = plan_of(tmp_path, text, connectors)
    setting = OperatorContext(lambda: 0, tmp_path, frozenset(("s", "failed")), MemoryBackend())
    surroundings = RunContext(tmp_path, "0" * 32, KernelExecutor())
    run_simulated(Job(JobSpec(plan, connectors, surroundings, setting)), seed=1)
    assert sorted(pl.concat(memory.outputs["out"])["x"]) == [0, 1, 2, 4]
    (letter,) = pl.concat(memory.outputs["bad"]).to_dicts()
    assert letter["error"] == 'column "at": wanted timestamp not null, got null'
    assert (letter["position"], letter["raw"]) == (3, '{"x":3,"at":null}')


def test_while_a_block_is_not_due_its_split_is_exhausted_unless_it_is_held() -> None:
    def make(first: int, last: int) -> pl.DataFrame:
        return pl.DataFrame({"id": range(first, last)})

    split = Split("s", "0")

    async def work() -> None:
        numbers = NumberedRows("s", make, 2, 0.1, 1)
        reading = create_numbered_reader(numbers, RunContext(Path(), "0" * 32, KernelExecutor()))
        reading.assign([(split, None)], last=True)
        assert isinstance(await reading.fetch(), Chunk)
        assert reading.list_exhausted() == {}
        waiting = asyncio.create_task(reading.fetch())
        await asyncio.sleep(4)
        assert reading.list_exhausted() == {split: 0.0}
        reading.pause({split})
        assert reading.list_exhausted() == {}
        reading.pause(set())
        assert isinstance(await waiting, Chunk)
        assert (asyncio.get_running_loop().time(), reading.list_exhausted()) == (10.0, {})
        assert await reading.fetch() == SplitFinished(split)
        await reading.close()

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        runner.run(work())


def test_a_generated_count_is_called_rows(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    source = "s: {generate: {count: 3, columns: {a: id}}}"
    file.write_text(f"name: t\nsources: {{{source}}}\nsinks: {{o: {{from: s, console: {{}}}}}}\n")
    problems = load_pipeline(file, REGISTRY, env={}).problems
    assert [problem.hint for problem in problems] == ['did you mean "rows"?']
