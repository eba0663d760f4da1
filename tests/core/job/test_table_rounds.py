"""Tables that are computed in random rounds, as they are and through crashes and rescales.

The rows are those that the reference interpreter gives. Thousands more:
`python -m tests.core.job.test_table_rounds 5000`; a seed that fails prints itself.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connectors.memory import InMemoryData, MemoryEvent
from tests.core.job.test_loops import EVERY_S, draw_rows
from tests.support.reference.random_loops import build_sources
from tests.support.reference.random_pipelines import BEGIN
from tests.support.runtime import expected_rows
from tests.support.runtime.crashing_jobs import Fate, FlakyMemory, Life
from tests.support.runtime.memory_pipelines import rows, simulated

STEPS = st.sampled_from(
    [
        "from: INPUT\n    where: v < 4 or v is null",
        "from: INPUT\n    with: {v: v + 1}",
        "from: INPUT\n    with: {k: k % 2}",
        "from: [INPUT, start]\n    where: k is null or k <> 7",
        "from: [INPUT, WHOLE]\n    select: {k: v, v: k + 1}",
        "from: [INPUT, totals]\n    where: v <> 3 or v is null",
        "from: [INPUT, totals, start]\n    key: k\n    aggregate: {v: max(v)}",
        "from: [totals, INPUT]\n    with: {k: k % 3}\n    key: k\n    aggregate: {v: min(v)}",
        "from: INPUT\n    key: k\n    aggregate: {v: max(v)}",
        "from: INPUT\n    key: k\n    top: {n: 2, by: v}",
        "from: [INPUT, totals]\n    key: v\n    top: {n: 1, by: k desc}",
        "from: INPUT\n    top: {n: 3, by: [v desc, k]}",
        "from: INPUT\n    top: {n: 2, by: [v, length('a')], ties: dense_rank}",
        "from: INPUT\n    key: v\n    aggregate: {k: count(*)}\n    select: {k: k, v: v}",
        "join: {left: {from: INPUT, as: one}, right: {from: b, as: other}, on: one.k = other.k}\n"
        "    select: {k: other.v, v: one.v}",
        "join: {left: {from: INPUT, as: one}, right: {from: b, as: other}, on: one.k = other.k,"
        " type: anti}",
        "join: {left: {from: INPUT, as: one}, right: {from: totals, as: other}, "
        "on: one.k = other.k}\n    select: {k: other.v, v: one.v}",
        "from: INPUT\n    key: k\n    aggregate: {v: 'coalesce(sum(v), 0) % 10'}\n"
        "    having: v > 1",
        "join: {left: {from: b, as: other}, right: {from: INPUT, as: one}, on: one.k = other.k,"
        " type: right}\n    select: {k: one.k, v: 'coalesce(other.v, 7)'}",
        "join: {left: {from: INPUT, as: one}, right: {from: WHOLE, as: other}, on: one.k = other.v}"
        "\n    select: {k: other.k, v: one.v}",
        "join: {left: {from: INPUT, as: one}, right: {from: WHOLE, as: other}, on: 'one.v = other.k"
        " and one.k > 0', type: full}\n    select: {k: one.k, v: 'coalesce(other.v % 10, 3)'}",
        "join: {left: {from: INPUT, as: one}, right: {from: WHOLE, as: other}, on: one.k = other.v,"
        " type: semi}",
    ]
)
TOTALS = "  totals: {from: b, key: k, aggregate: {v: max(v)}}\n"
"""A table from outside, whose rows change while it is computed."""
ENDS = st.sampled_from(["", ", until: max(v) > 4", ", until: count(*) < 3 or sum(v) > 30"])
LAST = "  next: {from: INPUT, key: k, aggregate: {v: 'coalesce(sum(v), 0) % 10'}}\n"
KEYED_ENDS = st.sampled_from(
    ["", ", key: k, until: max(abs(v - before.v)) < 2", ", key: k, until: count(before.k) > 2"]
)
DELTA_STEPS = st.sampled_from(
    [
        "join: {left: {from: INPUT, as: one}, right: {from: table.solution, as: other}, "
        "on: one.k = other.k}\n    where: one.v < other.v or other.v is null\n"
        "    select: {k: other.k, v: one.v}",
        "join: {left: {from: INPUT, as: one}, right: {from: table.solution, as: other}, "
        "on: one.v = other.k, type: left}\n"
        "    select: {k: one.k, v: 'one.v + coalesce(other.v, 1)'}",
        "join: {left: {from: INPUT, as: one}, right: {from: table.solution, as: other}, "
        "on: one.k = other.k, type: anti}",
    ]
)
DELTA_ENDS = st.sampled_from(["", ", until: count(*) < 3", ", until: max(abs(v - before.v)) < 2"])


def draw_rounds(data: st.DataObject) -> tuple[str, dict[str, expected_rows.Splits]]:
    """Draw a loop over a table, and the rows of its sources."""
    chance = random.Random(data.draw(st.integers(0, 9999)))
    count, is_keyed = data.draw(st.integers(1, 3)), data.draw(st.booleans())
    steps, read = "", "table.loop"
    for at in range(count):
        name = "next" if at == count - 1 and not is_keyed else f"inner{at}"
        steps += format_step(name, draw_step(data, STEPS, read, "table.loop"))
        read = name
    steps += TOTALS if "totals" in steps else ""
    ends = data.draw(KEYED_ENDS if is_keyed else ENDS)
    rounds = data.draw(st.integers(1, 4))
    text = (
        f"{build_sources(joins=True)}steps:\n"
        "  start: {from: a, select: {k: k, v: v}}\n"
        f"  table: {{iterate: {{bulk: start, body: next, rounds: {rounds}{ends}}}}}\n"
        f"{steps}{LAST.replace('INPUT', read) if is_keyed else ''}"
        "  step: {from: table, with: {w: v}}\n"
        "  others: {from: b, where: k is null and k is not null}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
        "  none: {from: others, memory: {data: none}}\n"
    )
    first = draw_lone_rows(chance, 8) if "before" in ends else draw_rows(chance, 8)
    return text, {"a": first, "b": draw_rows(chance, 5)}


def draw_lone_rows(chance: random.Random, most: int) -> expected_rows.Splits:
    """Return rows of which no two have the same key."""
    return [[*{row["k"]: row for split in draw_rows(chance, most) for row in split}.values()]]


def draw_step(data: st.DataObject, steps: st.SearchStrategy[str], read: str, whole: str) -> str:
    """Draw a step that reads a stream, and perhaps the whole table of the round."""
    step = data.draw(steps)
    if read == whole:  # it cannot be united with itself
        step = step.replace("[INPUT, WHOLE]", "INPUT")
    return step.replace("INPUT", read).replace("WHOLE", whole)


def format_step(name: str, step: str) -> str:
    """Return the step; a `top` is followed by one that leaves out its rank."""
    if "top:" not in step:
        return f"  {name}:\n    {step}\n"
    return f"  first_{name}:\n    {step}\n  {name}: {{from: first_{name}, select: [k, v]}}\n"


def draw_delta(data: st.DataObject) -> tuple[str, dict[str, expected_rows.Splits]]:
    """Draw a delta iteration, and the rows of its sources."""
    chance = random.Random(data.draw(st.integers(0, 9999)))
    steps, read = "", data.draw(st.sampled_from(["table.workset", "table.solution"]))
    for at in range(data.draw(st.integers(1, 3))):
        step = draw_step(data, st.one_of(DELTA_STEPS, STEPS), read, "table.workset")
        steps, read = steps + format_step(f"inner{at}", step), f"inner{at}"
    steps += TOTALS if "totals" in steps else ""
    workset = data.draw(st.sampled_from(["start", "first"]))
    rounds, ends = data.draw(st.integers(1, 5)), data.draw(DELTA_ENDS)
    text = (
        f"{build_sources(joins=True)}steps:\n"
        "  start: {from: a, select: {k: k, v: v}}\n"
        "  first: {from: b, select: {k: k, v: v}}\n"
        f"  table: {{iterate: {{delta: {{solution: start, workset: {workset}, key: k}}, "
        f"body: next, max_rounds: {rounds}{ends}}}}}\n"
        f"{steps}{LAST.replace('INPUT', read)}"
        "  step: {from: table, with: {w: v}}\n"
        "  others: {from: first, where: k is null and k is not null}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
        "  none: {from: others, memory: {data: none}}\n"
    )
    return text, {"a": draw_lone_rows(chance, 8), "b": draw_rows(chance, 5)}


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_rounds_give_the_table_that_their_plan_means(data: st.DataObject) -> None:
    text, came = data.draw(st.sampled_from([draw_rounds, draw_delta]))(data)
    expected_rows.run(data, text, came)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whatever_happens_rounds_give_the_table_once(data: st.DataObject) -> None:
    survive(data)


LATE_LINKS = """\
sources:
  pages: {memory: {data: pages}, schema: {page: bigint}}
  links:
    memory: {data: links}
    schema: {page: bigint, target: bigint, at: timestamp}
    event_time: at
    watermark: {delay: 0s}
steps:
  start: {from: pages, select: {page: page, hops: 0L}}
  reached: {iterate: {bulk: start, body: next, rounds: 50}}
  moved:
    join: {left: {from: reached.loop, as: one}, right: links, on: one.page = links.page}
    select: {page: links.target, hops: one.hops + 1}
  both: {from: [start, moved]}
  next: {from: both, key: page, aggregate: {hops: min(hops)}}
sinks: {out: {from: reached, memory: {data: out}}}
"""


def test_a_round_waits_for_the_end_of_inputs_from_outside(tmp_path: Path) -> None:
    """The links come in pieces, long after the table of the first round."""
    links = [
        pl.DataFrame({"page": [page], "target": [page + 1], "at": [BEGIN + timedelta(hours=page)]})
        for page in range(5)
    ]
    events = [event for frame in links for event in (frame, 10.0)]
    memory = InMemoryData({"pages": {"0": [pl.DataFrame({"page": [0]})]}, "links": {"0": events}})
    outcome = simulated(tmp_path, LATE_LINKS, memory, 1)
    assert outcome.failure is None, outcome.failure
    assert rows(memory, "out") == Counter((page, page) for page in range(6))


def test_a_drained_table_takes_no_new_rows(tmp_path: Path) -> None:
    pages: list[MemoryEvent] = [pl.DataFrame({"page": [0]}), 50.0, pl.DataFrame({"page": [3]})]
    link = pl.DataFrame({"page": [0], "target": [1], "at": [BEGIN]})
    memory = FlakyMemory({"pages": {"0": pages}, "links": {"0": [link]}})
    life = Life(tmp_path, f"settings: {{parallelism: 1}}\n{LATE_LINKS}", memory)
    outcome = life.run(1, Fate(stopped_at=20, drains=True))
    assert outcome.failure is None, outcome.failure
    assert rows(memory, "out") == Counter([(0, 0), (1, 1)])
    outcome = life.run(2)
    assert outcome.failure is not None
    assert outcome.failure.step == "reached"
    assert outcome.failure.message.startswith("new rows came after the last round")


TWO_OF_A_KEY = """\
sources:
  pages: {memory: {data: pages}, schema: {page: bigint, hops: bigint}}
steps:
  best: {iterate: {delta: {solution: pages, workset: pages, key: page}, body: next, max_rounds: 9}}
  next: {from: best.workset, where: hops < 3, select: {page: 'page % 2', hops: hops + 1}}
sinks: {out: {from: best, memory: {data: out}}}
"""


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ([1, 1], 'in round 1, two rows of "pages" have the same key, page: 1'),
        ([1, 3], 'in round 1, two rows of "next" have the same key, page: 1'),
        ([1, 2], None),
    ],
)
def test_two_rows_with_one_key_fail_by_name(
    tmp_path: Path, pages: list[int], message: str | None
) -> None:
    memory = InMemoryData({"pages": {"0": [pl.DataFrame({"page": pages, "hops": [0, 0]})]}})
    outcome = simulated(tmp_path, TWO_OF_A_KEY, memory, 1)
    assert (outcome.failure and outcome.failure.message) == message
    wanted = [] if message else [(0, 3), (1, 3), (2, 0)]
    assert rows(memory, "out") == Counter(wanted)


@pytest.mark.parametrize(
    ("pages", "body", "message"),
    [
        ([1, 1], "page", 'in round 1, two rows of "pages" have the same key, page: 1'),
        ([1, 3], "page % 2", 'in round 1, two rows of "next" have the same key, page: 1'),
        ([1, 2], "page", None),
    ],
)
def test_before_needs_one_row_of_each_key(
    tmp_path: Path, pages: list[int], body: str, message: str | None
) -> None:
    text = TWO_OF_A_KEY.replace(
        "delta: {solution: pages, workset: pages, key: page}, body: next, max_rounds: 9",
        "bulk: pages, body: next, rounds: 9, key: page, until: min(before.hops) = 4",
    )
    text = text.replace("best.workset, where: hops < 3", "best.loop").replace("page % 2", body)
    memory = InMemoryData({"pages": {"0": [pl.DataFrame({"page": pages, "hops": [0, 0]})]}})
    outcome = simulated(tmp_path, text, memory, 1)
    assert (outcome.failure and outcome.failure.message) == message
    assert rows(memory, "out") == Counter([] if message else [(1, 5), (2, 5)])


def test_tables_beyond_max_in_loop_fail_by_name(tmp_path: Path) -> None:
    """The work set and the solution have ten rows of 24 bytes each, with their weights."""
    pages = pl.DataFrame({"page": range(10), "hops": [0] * 10})
    for size, fails in (("400B", True), ("4KB", False)):
        memory = InMemoryData({"pages": {"0": [pages]}})
        text = TWO_OF_A_KEY.replace("max_rounds: 9", f"max_rounds: 1, max_in_loop: {size}")
        outcome = simulated(tmp_path, text.replace("page % 2", "page"), memory, 1)
        assert (outcome.failure is not None) == fails
        if outcome.failure is not None:
            assert outcome.failure.step == "best"
            assert "more than the max_in_loop of 400 B" in outcome.failure.message


SENT_TO_MANY = """\
sources:
  pages: {memory: {data: pages}, schema: {page: bigint, rank: bigint}}
  links: {memory: {data: links}, schema: {page: bigint, target: bigint}}
steps:
  ranks: {iterate: {bulk: pages, body: last, rounds: 2, max_in_loop: SIZE}}
  sent:
    join: {left: {from: ranks.loop, as: one}, right: links, on: one.page = links.page}
    select: {page: links.target, rank: one.rank}
INSIDE
  last: {from: next, key: page, aggregate: {rank: min(rank)}}
sinks: {out: {from: ranks, memory: {data: out}}}
"""
JOIN = """\
  next:
    join: {left: {from: sent, as: one}, right: {from: ranks.loop, as: old}, on: one.page = old.page}
    select: {page: one.page, rank: old.rank}"""


@pytest.mark.parametrize(
    "inside", ["  next: {from: sent, key: page, aggregate: {rank: max(rank)}}", JOIN]
)
def test_rows_of_a_round_beyond_max_in_loop_fail_by_name(tmp_path: Path, inside: str) -> None:
    """The head has ten rows of 24 bytes, and the next step 300 rows of 16 bytes."""
    pages = pl.DataFrame({"page": range(10), "rank": [1] * 10})
    links = pl.DataFrame({"page": [*range(10)] * 30, "target": [at % 10 for at in range(300)]})
    for size, fails in (("4KB", True), ("40KB", False)):
        memory = InMemoryData({"pages": {"0": [pages]}, "links": {"0": [links]}})
        text = SENT_TO_MANY.replace("SIZE", size).replace("INSIDE", inside)
        outcome = simulated(tmp_path, text, memory, 1)
        assert (outcome.failure is not None) == fails, outcome.failure
        if outcome.failure is not None:
            assert outcome.failure.step == "next"
            assert "the rows of a round have" in outcome.failure.message
            assert "more than the max_in_loop of 4.0 KB" in outcome.failure.message


SIGNED_ZEROS = """\
sources:
  others: {memory: {data: others}, schema: {v: double}}
  ones: {memory: {data: ones}, schema: {v: double, text: string}}
steps:
  table: {iterate: {bulk: ones, body: next, rounds: 1}}
  values: {from: table.loop, select: [v]}
  next: {from: [values, others], key: v, aggregate: {text: min(cast(v as string))}}
sinks: {out: {from: table, memory: {data: out}}}
"""


def test_a_union_stores_the_sign_of_a_zero_in_its_key(tmp_path: Path) -> None:
    ones = pl.DataFrame({"v": [1.0], "text": ["one"]})
    memory = InMemoryData(
        {"others": {"0": [pl.DataFrame({"v": [0.0, -0.0]})]}, "ones": {"0": [ones]}}
    )
    outcome = simulated(tmp_path, SIGNED_ZEROS, memory, 1)
    assert outcome.failure is None, outcome.failure
    assert rows(memory, "out") == Counter([(0.0, "-0.0"), (1.0, "1.0")])


ONE_COLUMN_TWICE = """\
sources:
  others: {memory: {data: others}, schema: {v: bigint}}
  ones: {memory: {data: ones}, schema: {v: bigint, same: bigint, n: bigint}}
steps:
  table: {iterate: {bulk: ones, body: next, rounds: 2}}
  values: {from: table.loop, select: [v]}
  next: {from: [values, others], with: {same: v}, key: [v, same], aggregate: {n: count(*)}}
sinks: {out: {from: table, memory: {data: out}}}
"""


def test_a_union_stores_a_column_that_its_key_has_twice(tmp_path: Path) -> None:
    ones = pl.DataFrame({"v": [1], "same": [1], "n": [0]})
    others = pl.DataFrame({"v": [2, 2, None]}, schema={"v": pl.Int64()})
    memory = InMemoryData({"others": {"0": [others]}, "ones": {"0": [ones]}})
    outcome = simulated(tmp_path, ONE_COLUMN_TWICE, memory, 1)
    assert outcome.failure is None, outcome.failure
    assert rows(memory, "out") == Counter([(1, 1, 1), (2, 2, 3), (None, None, 2)])


def test_rounds_are_counted_once_through_a_restart(tmp_path: Path) -> None:
    pages: list[MemoryEvent] = [pl.DataFrame({"page": [0]})]
    links = [
        pl.DataFrame({"page": [page], "target": [page + 1], "at": [BEGIN + timedelta(hours=page)]})
        for page in range(5)
    ]
    memory = FlakyMemory({"pages": {"0": pages}, "links": {"0": [pl.concat(links)]}})
    life = Life(tmp_path, f"settings: {{parallelism: 1}}\n{LATE_LINKS}", memory)
    first = life.run(1, Fate(stopped_at=0.001))
    assert 0 < first.part_counts["reached"].metrics.counters["rounds"] < 6
    counted = life.run(2).part_counts["reached"].metrics
    assert counted.counters == {"rounds": 6, "rows_changed": 5}
    assert counted.gauges["round_rows_changed"] == 0


def survive(data: st.DataObject) -> None:
    """Draw rounds, rows, and faults, and compare."""
    text, came = data.draw(st.sampled_from([draw_rounds, draw_delta]))(data)
    expected_rows.survive(data, text, came, every_s=EVERY_S, slow_share=0.7)


if __name__ == "__main__":
    expected_rows.more(survive, sys.argv[1:])
