"""Steps over rows that are inserted, updated and deleted, by hand, with the real runtime."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.plan import nodes
from tests.support.plans import SOURCE, said
from tests.support.runtime.committed_output import Values, ended
from tests.support.runtime.memory_pipelines import bounds_of, job_of, run_simulated
from tests.support.user_code import table_changes

TABLE = """\
sources:
  rows:
    memory: {data: in}
    schema: {id: bigint, g: string, v: bigint, gone: boolean, at: timestamp}
    event_time: at
    watermark: {delay: 0s}
steps:
  latest: {from: rows, dedup: {key: id, keep: last}}
  table: {from: latest, where: not gone, select: [id, g, v, at]}
"""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
Change = tuple[int, str | None, int | None, int]
"""The id, the group, the value (None deletes the row), and the second of a change."""


def at(second: int) -> datetime:
    return BEGIN + timedelta(seconds=second)


def events(*chunks: Sequence[Change]) -> list[Any]:
    """Return the chunks as frames, with pauses between them."""
    types = {"id": pl.Int64(), "g": pl.String(), "v": pl.Int64(), "gone": pl.Boolean()}
    schema = {**types, "at": pl.Datetime("us", "UTC")}
    frames = (
        pl.DataFrame(
            [(id, g, v, v is None, at(second)) for id, g, v, second in chunk], schema, orient="row"
        )
        for chunk in chunks
    )
    return [*chain.from_iterable((frame, 1.0) for frame in frames)]


def run(
    folder: Path, steps: str, *chunks: Sequence[Change], sinks: str = ""
) -> tuple[nodes.Plan, InMemoryData]:
    """Run steps that read `table`; the last one, `step`, is written to `out`."""
    memory = InMemoryData({"in": {"0": events(*chunks)}})
    text = f"settings: {{parallelism: 2}}\n{TABLE}{steps}sinks:\n  out: {{from: step, memory: "
    job = job_of(folder, f"{text}{{data: out}}}}\n{sinks}", memory, KernelExecutor(), bounds_of(1))
    outcome = run_simulated(job, 1)
    assert outcome.failure is None, outcome.failure
    return job.plan, memory


def final(folder: Path, steps: str, *chunks: Sequence[Change], sinks: str = "") -> Counter[Values]:
    """Return the output after all its changes."""
    plan, memory = run(folder, steps, *chunks, sinks=sinks)
    sink = plan.part("out")
    assert isinstance(sink, nodes.Sink)
    stream = plan.streams[sink.input]
    return ended(memory, stream.kind, stream.schema.names)


def facts(memory: InMemoryData, *names: str) -> Counter[Values]:
    """Return the rows of an append-only output."""
    return Counter(row for frame in memory.outputs["out"] for row in frame.select(names).rows())


def test_facts_and_a_table_are_united(tmp_path: Path) -> None:
    steps = (
        "  facts: {from: rows, where: v > 10, select: [id, g, v, at]}\n"
        "  both: {from: [table, facts]}\n"
        "  step: {from: both, key: g, aggregate: {n: count(*), total: sum(v)}}\n"
    )
    found = final(
        tmp_path, steps, [(1, "a", 20, 0), (2, "b", 5, 1)], [(1, "b", 7, 2)], [(2, "b", None, 3)]
    )
    assert found == {("a", 1, 20): 1, ("b", 1, 7): 1}


def test_rows_of_both_sides_of_a_full_join_may_lack_their_key(tmp_path: Path) -> None:
    steps = (
        "  mine: {from: table, key: g, aggregate: {n: count(*)}}\n"
        "  theirs: {from: table, where: v > 10, key: g, aggregate: {m: count(*), w: sum(v)}}\n"
        "  joined: {join: {left: mine, right: theirs, on: mine.g = theirs.g, type: full}, "
        "select: {g: mine.g, other: theirs.g, n: n, m: m, w: w}}\n"
        "  step: {from: joined, select: [n, m, w]}\n"
    )
    came: list[Sequence[Change]] = [[(1, None, 20, 0), (2, None, 5, 1), (3, "b", 30, 2)]]
    assert final(tmp_path, steps, *came) == {
        (2, None, None): 1,
        (None, 1, 20): 1,
        (1, 1, 30): 1,
    }
    came += [[(2, None, 15, 3)], [(3, "b", 7, 4)], [(1, None, None, 5)]]
    assert final(tmp_path, steps, *came) == {
        (1, None, None): 2,
        (None, 1, 15): 1,
    }


@pytest.mark.parametrize("condition", ["mine.g = theirs.g", "mine.n = theirs.w"])
def test_a_sink_that_writes_a_full_join_by_its_key_fails_if_two_rows_have_one_key(
    tmp_path: Path, condition: str
) -> None:
    steps = (
        "  mine: {from: table, key: g, aggregate: {n: count(*)}}\n"
        "  theirs: {from: table, where: v > 10, key: g, aggregate: {w: sum(v)}}\n"
        f"  step: {{join: {{left: mine, right: theirs, on: {condition}, type: full}}, "
        "select: {g: mine.g, other: theirs.g, n: n, w: w}}\n"
    )
    assert final(tmp_path, steps, [(1, None, 20, 0)], [(1, None, 5, 1)]) == {
        (None, None, 1, None): 1
    }
    with pytest.raises(AssertionError, match="key of nulls"):
        run(tmp_path, steps, [(1, None, 20, 0)])


def test_the_next_row_of_a_dedup_takes_the_place_of_a_deleted_one(tmp_path: Path) -> None:
    last = "  step: {from: table, dedup: {key: g, keep: last, order: event_time}, drop: at}\n"
    came: list[Sequence[Change]] = [[(1, "a", 10, 0), (2, "a", 20, 1), (3, "b", 30, 2)]]
    assert final(tmp_path, last, *came) == {(2, "a", 20): 1, (3, "b", 30): 1}
    came += [[(2, "a", None, 3)], [(3, "b", None, 4)]]
    assert final(tmp_path, last, *came) == {(1, "a", 10): 1}
    first = last.replace("keep: last, ", "")
    assert final(tmp_path, first, *came, [(1, "a", None, 5)]) == {}
    assert final(tmp_path, first, *came, [(4, "a", 1, 5)]) == {(1, "a", 10): 1}


def test_a_row_that_is_written_again_unchanged_has_its_new_event_time(tmp_path: Path) -> None:
    steps = (
        "  timeless: {from: table, select: [id, g]}\n"
        "  step: {from: timeless, dedup: {key: g, keep: last, order: event_time}}\n"
    )
    assert final(tmp_path, steps, [(1, "a", 10, 0), (2, "a", 20, 1)], [(1, "a", 10, 2)]) == {
        (1, "a"): 1
    }


def test_rows_with_equal_times_are_ranked_by_their_values(tmp_path: Path) -> None:
    step = "  step: {from: table, dedup: {key: g, order: event_time}, select: [g, v]}\n"
    for chunk in ([(1, "a", 10, 0), (0, "a", 20, 0)], [(0, "a", 20, 0), (1, "a", 10, 0)]):
        assert final(tmp_path, step, chunk) == {("a", 20): 1}


CODE = Path(table_changes.__file__)
CHANGES: list[Sequence[Change]] = [
    [(1, "a", 10, 0), (2, "b", 20, 1)],
    [(1, "b", 10, 2)],
    [(2, "b", None, 3)],
]


def test_a_function_gets_each_change_as_a_row(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "def same(row):\n    return {n: row[n] for n in ('g', 'v', '_change')}\n"
    )
    returns = "returns: {g: string, v: bigint, _change: string}, changes: true"
    step = f"  step: {{from: table, map: {{python: 'm.py:same', mode: row, {returns}}}}}\n"
    _, memory = run(tmp_path, step, *CHANGES)
    assert facts(memory, "g", "v", "_change") == {
        ("a", 10, "insert"): 1,
        ("b", 20, "insert"): 1,
        ("a", 10, "delete"): 1,
        ("b", 10, "insert"): 1,
        ("b", 20, "delete"): 1,
    }


@pytest.mark.parametrize("name", ["Signed", "SignedBatches"])
def test_a_class_gets_the_changes_of_each_key(tmp_path: Path, name: str) -> None:
    returns = "returns: {g: string, n: bigint, total: bigint}"
    process = f"process: {{python: '{CODE}:{name}', order: arrival, changes: true, {returns}}}"
    steps = "  renamed: {from: table, select: {g: g, w: v, v: v}}\n"
    steps += f"  step: {{from: renamed, key: g, {process}}}\n"
    _, memory = run(tmp_path, steps, *CHANGES)
    assert facts(memory, "g", "n", "total") == {("a", 1, 10): 1, ("b", 1, 20): 1} | {
        ("a", -1, -10): 1,
        ("b", 1, 10): 1,
        ("b", -1, -20): 1,
    }


FIRST: Sequence[Change] = [(1, "a", 10, 0), (2, "a", 20, 1)]


def test_rows_without_times_of_their_own_are_given_one(tmp_path: Path) -> None:
    steps = (
        "  totals: {from: table, key: g, aggregate: {total: sum(v), last_at: max(at)}}\n"
        "  timed: {from: totals, event_time: last_at}\n"
        "  step: {from: timed, window: {tumble: 1m}, aggregate: {n: count(*), v: sum(total)}}\n"
    )
    came: list[Sequence[Change]] = [[*FIRST, (3, "b", 5, 2)], [(2, "b", 20, 30)]]
    # The group "b" moves to the next window with its newest row.
    assert final(tmp_path, steps, *came, [(4, "b", 1, 59)], [(5, "b", 2, 60)]) == {
        (at(0), at(60), 1, 10): 1,
        (at(60), at(120), 1, 28): 1,
    }


def test_a_join_by_keys_is_given_times(tmp_path: Path) -> None:
    steps = (
        "  again: {from: latest, where: true}\n"
        "  step:\n    join: {left: table, right: again, on: table.id = again.id}\n"
        "    select: {g: table.g, v: again.v, at: table.at}\n    event_time: at\n"
        "  last: {from: step, dedup: {key: g, keep: last, order: event_time}, select: [g, v]}\n"
    )
    steps = steps.replace("step", "joined").replace("last:", "step:", 1)
    came: list[Sequence[Change]] = [FIRST, [(1, "a", 10, 5)]]
    assert final(tmp_path, steps, *came) == {("a", 10): 1}
    assert final(tmp_path, steps, *came, [(1, "b", 10, 6)]) == {("a", 20): 1, ("b", 10): 1}


def test_a_change_without_the_time_that_a_step_gives_fails_the_job(tmp_path: Path) -> None:
    steps = "  step: {from: table, event_time: 'if(v = 5, null, at)'}\n"
    memory = InMemoryData({"in": {"0": events([(3, "b", 5, 2)])}})
    text = f"{TABLE}{steps}sinks:\n  out: {{from: step, memory: {{data: out}}}}\n"
    outcome = run_simulated(job_of(tmp_path, text, memory, KernelExecutor(), bounds_of(1)), 1)
    assert "event_time of step step is null" in str(outcome.failure)
    assert outcome.failure is not None
    assert outcome.failure.hint.startswith("where leaves such rows out")


OWN_TIMES = (
    "by the event time of rows, but rows of an aggregate, a top or a join by keys have that of "
    "their last change [give them one in a step before, as in {from: ..., event_time: max_at}]"
)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "map: {python: 'm.py:f', returns: {a: int}}",
            "map of a stream of changes (upserts of id) must return their key: id [a step after "
            "this one may drop it; or map: {..., changes: true} gets changes as rows with a column"
            " _change]",
        ),
        (
            "key: name, process: {python: 'm.py:C', returns: {a: int}}",
            "process does not take a stream of changes [process: {..., changes: true, order: "
            "arrival} gets changes as rows with a column _change]",
        ),
        (
            "key: name, process: {python: 'm.py:C', changes: true, returns: {a: int}}",
            "process: changes come in the order of arrival [add order: arrival]",
        ),
        (
            "with: {_change: name}, key: name, process: {python: 'm.py:C', order: arrival, "
            "changes: true, returns: {a: int}}",
            'there is a column "_change" already [rename it in an earlier step]',
        ),
        (
            "lookup: {file: {path: x.csv}, on: [id], add: {a: int}, ordered: false}",
            "lookup with ordered: false does not take a stream of changes (upserts of id) "
            "[leave out ordered: the last change of a row must come last]",
        ),
        (
            "lookup: {file: {path: x.csv}, on: [id], add: {a: int}}, drop: id",
            "drop must keep the key of the changes: id",
        ),
        (
            "with: {t: now()}, drop: id",
            "with of a stream of changes does not take the processing time [a removed row would "
            "get another value: compute it in a step before, which keeps the key of the changes]",
        ),
        *(
            (f"key: name, window: {{{window}}}, aggregate: {{n: count(*)}}", message)
            for window, message in (
                (
                    "count: 2",
                    "a count window does not take a stream of changes: rows that may be removed "
                    "come in no order [use a window of time, or none; process: {..., ",
                ),
                (
                    "tumble: 1s, time: processing",
                    "a window of processing time does not take a stream of changes: a row and its "
                    "removal arrive at different times [leave out time: processing]",
                ),
                (
                    "session: 1s, trigger: {every: 1s}",
                    "window: trigger does not go with a session of a stream of changes [leave it "
                    "out, or use tumble, slide or cumulate]",
                ),
                (
                    "tumble: 9s, trigger: {count: 2}",
                    "window: a trigger by rows does not go with a stream of changes: how many "
                    "changes there are depends on how they arrive [use trigger: {every: 10s}, ",
                ),
                (
                    "tumble: 9s, trigger: {every: 1s}, accumulate: false",
                    "window: accumulate: false does not go with a stream of changes: a removed row "
                    "may have been discarded [leave it out]",
                ),
            )
        ),
        (
            "event_time: at, watermark: {delay: 1s}",
            "watermark: changes have the watermarks of their sources [leave it out]",
        ),
        (
            "event_time: now()",
            "event_time: the time at which a row is read is another one after each restart ["
            "compute it in a step before, as in with: {seen: now()}, which stores it]",
        ),
        (
            "map: {python: code.py:f, returns: {id: bigint, name: string}}, key: name, "
            "window: {tumble: 9s}, aggregate: {n: count(*)}",
            "aggregate does not take a stream of changes (upserts of id) [put it into a step after "
            "this one]",
        ),
        (
            "key: name, aggregate: {last_at: max(at)}, event_time: last_at",
            "event_time does not take a stream of changes (upserts of name) [put it into a step "
            "after this one]",
        ),
        (
            "dedup: {key: v}",
            "dedup by arrival does not take a stream of changes [add order: event_time, as changes "
            "arrive in any order]",
        ),
        (
            "dedup: {key: v, order: event_time, ttl: 1h}",
            "dedup: ttl does not go with a stream of changes: a row stays until a change deletes it"
            " [leave it out]",
        ),
        (
            "dedup: {key: v, order: event_time, late_to: late}",
            "dedup: late_to does not go with a stream of changes: no row is late [leave it out]",
        ),
    ],
)
def test_a_clause_that_means_nothing_over_changes_is_refused(
    tmp_path: Path, step: str, message: str
) -> None:
    sinks = "out: {from: step, console: {}}"
    late = ", late: {from: late, console: {}}" if "late_to" in step else ""
    steps = "steps:\n  latest: {from: orders, dedup: {key: id, keep: last}}\n"
    text = f"{SOURCE}{steps}  step: {{from: latest, {step}}}\nsinks: {{{sinks}{late}}}\n"
    (tmp_path / "m.py").write_text(CLASS)
    lines = said(tmp_path, text)
    assert any(message in line for line in lines), lines


def test_late_changes_of_rows_with_a_column_of_that_name_are_refused(tmp_path: Path) -> None:
    steps = (
        "steps:\n  latest: {from: orders, dedup: {key: id, keep: last}}\n"
        "  named: {from: latest, with: {_change: name}}\n"
        "  step: {from: named, window: {tumble: 1s, late_to: l}, aggregate: {n: count(*)}}\n"
    )
    sinks = "sinks: {out: {from: step, console: {}}, late: {from: l, console: {}}}\n"
    lines = said(tmp_path, f"{SOURCE}{steps}{sinks}")
    message = 'there is a column "_change" already [rename it in an earlier step]'
    assert any(message in line for line in lines), lines


@pytest.mark.parametrize(
    ("clause", "inputs", "name"),
    [
        ("connect", "connect: {left: orders, right: IN}", "Two"),
        ("broadcast", "from: orders, broadcast: {rules: IN}", "Rules"),
    ],
)
def test_a_class_of_two_inputs_reads_changes_that_a_map_made_rows_of(
    tmp_path: Path, clause: str, inputs: str, name: str
) -> None:
    (tmp_path / "m.py").write_text(CLASS)
    steps = (
        "steps:\n  latest: {from: orders, dedup: {key: id, keep: last}}\n"
        "  moves: {from: latest, map: {python: 'm.py:f', changes: true, returns: {id: bigint}}}\n"
        f"  step: {{{inputs}, key: id, process: {{python: 'm.py:{name}', order: arrival, "
        "returns: {a: int}MORE}}\n"
    )
    sinks = "sinks: {out: {from: step, console: {}}, moves_too: {from: moves, console: {}}}\n"
    text = f"{SOURCE}{steps}{sinks}"
    refused = said(tmp_path, text.replace("IN", "latest").replace("MORE", ", changes: true"))
    assert len(refused) == 1 and f'{clause} of a class does not take "latest"' in refused[0]
    assert "with map: {..., changes: true}" in refused[0]
    assert said(tmp_path, text.replace("IN", "moves").replace("MORE", "")) == []


CLASS = """
import headrace

def f(rows):
    return rows

class C(headrace.Process):
    def on_row(self, row, state, out):
        pass

class Rules(headrace.Process):
    limits = headrace.shared(headrace.map_of("bigint", "bigint"))

    def on_row(self, row, state, out):
        pass

    def on_rule(self, rule, state):
        pass

class Two(headrace.Process):
    def on_left(self, row, state, out):
        pass

    def on_right(self, row, state, out):
        pass
"""


@pytest.mark.parametrize(
    "step",
    [
        "dedup: {key: rank, order: event_time}",
        "key: rank, window: {tumble: 1s}, aggregate: {n: count(*)}",
    ],
)
def test_rows_without_times_of_their_own_are_refused(tmp_path: Path, step: str) -> None:
    steps = (
        "steps:\n  sums: {from: orders, key: id, top: {n: 2, by: price}}\n"
        f"  step: {{from: sums, {step}}}\n"
    )
    text = f"{SOURCE}{steps}sinks: {{out: {{from: step, console: {{}}}}}}\n"
    assert [each for each in said(tmp_path, text) if OWN_TIMES in each]


def test_a_dedup_of_a_table_without_an_end_stores_its_rows(tmp_path: Path) -> None:
    steps = (
        "steps:\n  latest: {from: orders, dedup: {key: id, keep: last}}\n"
        "  step: {from: latest, dedup: {key: name, order: event_time}}\n"
    )
    source = SOURCE.replace("{path: in}", "{path: in, watch: 1s}")
    text = f"{source}{steps}sinks: {{out: {{from: step, console: {{}}}}}}\n"
    message = 'step "step": every row is stored until a change removes it'
    assert any(message in line for line in said(tmp_path, text))


@pytest.mark.parametrize("last", ["", "{from: tied, where: rank < 3}", "MATCHED"])
def test_first_rows_with_ties_are_removed_by_key_whenever_they_change(
    tmp_path: Path, last: str
) -> None:
    """A row that is removed is the row that was added, also where its time is a part of it."""
    matched = (
        "{join: {left: tied, right: table, on: tied.g = table.g, type: left}, "
        "select: {id: tied.id, g: tied.g, total: total, rank: rank, other: table.id}}"
    )
    totals = "  totals: {from: table, key: [id, g], aggregate: {total: sum(v)}}\n"
    top = "{from: totals, key: g, top: {n: 1, by: total desc, ties: rank}}"
    steps = f"{totals}  tied: {top}\n  step: {last.replace('MATCHED', matched)}\n"
    if not last:
        steps = f"{totals}  step: {top}\n"
    came: list[Sequence[Change]] = [[(1, "a", 10, 0)], [(2, "a", 20, 1)], [(3, "a", 20, 2)]]
    came += [[(2, "a", None, 3)], [(4, "a", 30, 4)], [(4, "a", 5, 5)]]
    wanted: set[Values] = {(3, "a", 20, 1)}
    if last == "MATCHED":
        wanted = {(3, "a", 20, 1, other) for other in (1, 3, 4)}
    assert final(tmp_path, steps, *came) == dict.fromkeys(wanted, 1)
