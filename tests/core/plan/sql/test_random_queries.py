"""Random queries give at each checkpoint what DuckDB gives over the rows before its barrier.

The tables are facts, or change; the jobs are killed, stopped and rescaled. Thousands more:
`python -m tests.core.plan.sql.test_random_queries 5000`; it prints the seed that fails.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from headrace.core.plan import nodes
from tests.support.reference.random_sql_tables import RandomTables, to_frame
from tests.support.runtime import expected_rows
from tests.support.runtime.checkpointed_output import (
    Checkpoint,
    CheckpointRecorder,
    add_full_sinks,
    apply_output,
    find_waiting_parts,
)
from tests.support.runtime.crashing_jobs import FlakyMemory
from tests.support.runtime.memory_pipelines import cut

QUERIES = 5
"""The queries of one pipeline."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is done for the queries of a pipeline."""

    queries: int = QUERIES
    rows: int = 25
    """The rows of each table."""
    compared: int = 4
    """The most checkpoints that are compared, besides the end."""
    sizes: tuple[int, ...] = (1, 6, 50)
    """The rows of the pieces in which a split arrives."""
    lives: int = 4
    """Fewer processes than that are killed, stopped or rescaled."""
    every_s: tuple[float, ...] = (0.3, 1.0, 3.0)
    """The time between checkpoints."""
    slow_shares: tuple[float, ...] = (0.0, 0.3)
    parallelism: tuple[int, ...] = (1, 3)
    has_changelogs: bool = True
    """Whether a sink has each change, besides one that has the last state of each row."""


CALM = Effort(48, 10, 1, (50,), 1, (3.0,), (0.0,), (1,), has_changelogs=False)
"""Many queries at once, whose job is neither killed nor rescaled, cost little each."""
EVENTFUL = Effort(4, 12, 2, (50,))


@pytest.mark.parametrize(("seed", "effort"), [("n", CALM), ("r", CALM), ("w", EVENTFUL)])
def test_random_queries_are_right_at_each_checkpoint(seed: str, effort: Effort) -> None:
    wrong = [*survive(seed, effort)]
    assert not wrong, "\n".join(wrong)


def survive(seed: str, effort: Effort) -> Iterator[str]:
    """Run random queries through what happens to a job; yield what is not as DuckDB has it."""
    random = Random(seed)
    tables = RandomTables.draw(random, effort.queries, effort.rows)
    memory = FlakyMemory(
        {name: _pace(name, random, tables, effort.sizes) for name in tables.splits}
    )
    recorder = CheckpointRecorder(memory)
    text = tables.write_pipeline(f"settings: {{parallelism: {random.choice(effort.parallelism)}}}")
    plan, _ = expected_rows.survived(
        add_full_sinks(text) if effort.has_changelogs else text,
        memory,
        random,
        random.randrange(effort.lives),
        effort.every_s,
        slow_share=random.choice(effort.slow_shares),
        on_committed=recorder.record,
    )
    waiting = find_waiting_parts(plan)
    for checkpoint in (recorder.end, *recorder.draw(random, effort.compared)):
        left_out = set[str]() if checkpoint.number < 0 else waiting
        for wrong in _compare(tables, plan, recorder, checkpoint, left_out):
            yield f"{seed}, checkpoint {checkpoint.number}: {wrong}"


def _pace(
    name: str, random: Random, tables: RandomTables, sizes: tuple[int, ...]
) -> dict[str, list[Any]]:
    """Return the rows of the splits of a source in pieces, with pauses."""
    events: dict[str, list[Any]] = {}
    for at, rows in enumerate(tables.splits[name]):
        frame = to_frame(name.removesuffix("_rows"), rows)
        size = random.choice(sizes)
        events[str(at)] = [
            each for piece in cut(frame, size) for each in (piece, random.choice((0.0, 0.4, 2.0)))
        ]
    return events


def _compare(
    tables: RandomTables,
    plan: nodes.Plan,
    recorder: CheckpointRecorder,
    checkpoint: Checkpoint,
    left_out: Container[str],
) -> Iterator[str]:
    data = {name: name for name in tables.splits}
    inputs = recorder.read_input(data, tables.splits, checkpoint)
    with tables.open_database(inputs) as database:
        for sink in plan:
            if isinstance(sink, nodes.Sink) and sink.name not in left_out:
                names, found = apply_output(plan, sink, recorder, checkpoint)
                query = tables.find_query(sink.input.partition("@")[0])
                wanted = tables.run(database, query, names)
                if found != wanted:
                    more, missing = dict(found - wanted), dict(wanted - found)
                    yield f"{sink.name}: {query}\n    not {more} but {missing}"


def main(count: int, first: int = 0) -> None:
    """Run that many queries."""
    differing = 0
    for seed in range(first, first + count // QUERIES):
        for wrong in survive(str(seed), Effort()):
            print(wrong, flush=True)
            differing += 1
    print(f"{count} queries, {differing} differ")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
