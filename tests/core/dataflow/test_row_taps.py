"""Taps show the rows that a sink of their stream would get, whatever is fused."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.taps import TapError, TapRequest, TapSample
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.dataflow.row_taps import MAX_SHOWN_ROWS, RowTap, TapPoint, find_tap_point
from headrace.core.job.job import Job
from headrace.core.pipeline.settings import FixedRestart
from headrace.core.plan.taps import check_tap, list_tapped_streams
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.core.worker.tap_sampler import flush_taps
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.support.runtime.memory_pipelines import job_of, run_simulated

FUSED = """
sources:
  rows: {memory: {data: rows}, schema: {id: bigint, k: bigint, price: "decimal(10,2)"}}
  other: {memory: {data: rows}, schema: {id: bigint, k: bigint, price: "decimal(10,2)"}}
steps:
  even: {from: rows, where: id % 2 = 0}
  plain: {from: even, where: true}
  priced: {from: plain, with: {twice: price * 2}, where: id <> 4}
  named: {from: priced, select: {k: k, twice: twice, name: "concat('n', id)"}}
  more: {from: named, where: twice > 4, with: {thrice: twice + 1}}
  parts: {from: more, route: {low: thrice < 20}}
  totals: {from: parts.low, with: {g: k + 1}, key: g, aggregate: {n: count(*), most: max(thrice)}}
  shown: {from: totals, select: {g: g, n: n}}
  both: {from: [rows, other], where: k < 2}
  exploded: {from: both, explode: {e: "sequence(1, 2)"}, where: e > id}
sinks:
  out: {from: shown, memory: {data: out}}
  rest: {from: parts.else, memory: {data: rest}}
  last: {from: exploded, memory: {data: last}}
settings: {parallelism: PARALLELISM, key_groups: 8}
"""

RESTARTED = """
sources: {rows: {memory: {data: rows}, schema: {id: bigint, k: bigint, price: "decimal(10,2)"}}}
steps: {same: {from: rows, map: {python: "f.py:f", returns: {id: bigint}}}}
sinks: {out: {from: same, memory: {data: out}}}
"""

STREAMS = (
    *("rows", "even", "plain", "priced", "named", "more", "parts.low", "parts.else"),
    *("totals", "shown", "both", "exploded"),
)
MORE = "".join(
    f"  s{at}: {{from: {name}, memory: {{data: {name}}}}}\n" for at, name in enumerate(STREAMS)
)


def numbered(start: int) -> pl.DataFrame:
    ids = pl.int_range(start, start + 6, eager=True)
    price = (ids.cast(pl.Float64) * 1.1).round(2).cast(pl.Decimal(10, 2))
    return pl.DataFrame({"id": ids, "k": ids % 3, "price": price})


def events() -> list[MemoryEvent]:
    """A few rows, then a pause of more than a second, and again."""
    return [each for start in (0, 6, 12) for each in (numbered(start), 2.0)]


def job_over(folder: Path, text: str, splits: int = 1) -> tuple[Job, InMemoryData]:
    data = {str(split): events() for split in range(splits)}
    memory = InMemoryData({"rows": data})
    return job_of(folder, text, memory, KernelExecutor(), ChannelBounds()), memory


def tapped(job: Job, *requests: TapRequest) -> dict[TapRequest, list[TapSample]]:
    """Run a job with taps; the samples of each."""
    samples = defaultdict[TapRequest, list[TapSample]](list)
    for request in requests:
        job.taps.add(request, samples[request].append)
    outcome = run_simulated(job, 1)
    assert outcome.failure is None
    return samples


def rows_of(samples: list[TapSample]) -> list[dict[str, Any]]:
    return [row for each in samples if each.rows is not None for row in each.rows.to_dicts()]


def ordered(rows: list[dict[str, Any]], columns: set[str]) -> list[str]:
    """Rows without their other columns, in an order of their own."""
    return sorted(str({name: row[name] for name in sorted(columns)}) for row in rows)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_each_stream_has_the_rows_that_a_sink_of_it_gets(tmp_path: Path, parallelism: int) -> None:
    text = FUSED.replace("PARALLELISM", str(parallelism))
    job, _ = job_over(tmp_path, text, splits=parallelism)
    assert {*STREAMS} <= {*list_tapped_streams(job.plan)}
    samples = tapped(job, *map(TapRequest, STREAMS))
    with_sinks = text.replace("settings:", f"{MORE}settings:")
    model, memory = job_over(tmp_path, with_sinks, splits=parallelism)
    assert run_simulated(model, 1).failure is None
    for name in STREAMS:
        found = rows_of(samples[TapRequest(name)])
        wanted = [row for frame in memory.outputs[name] for row in frame.to_dicts()]
        assert found, name
        if name in ("totals", "shown"):  # how often a result changes depends on the batches
            assert {(row["g"], row["n"]) for row in wanted} <= {(r["g"], r["n"]) for r in found}
        else:
            assert ordered(found, {*found[0]}) == ordered(wanted, {*found[0]}), name
        assert sum(sample.dropped for sample in samples[TapRequest(name)]) == 0


def test_steps_of_one_operator_are_computed_again_for_the_sample(tmp_path: Path) -> None:
    plan = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))[0].plan
    task = next(task for task in plan.tasks if "more" in task.parts)
    points = {name: find_tap_point(plan, task, name) for name in ("priced", "named", "more")}
    assert {point.operator for point in points.values()} != {None}
    assert [bool(point.operations) for point in points.values()] == [True, True, False]
    first = next(task for task in plan.tasks if "rows" in task.parts)
    assert find_tap_point(plan, first, "rows") == TapPoint()


def test_a_condition_selects_rows_by_all_columns_of_the_stream(tmp_path: Path) -> None:
    job, _ = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))
    wanted = {
        TapRequest("rows", "id in (3, 5) or price > 16.5"): [3, 5, 16, 17],
        TapRequest("even", "id % 4 = 0 and k is not null"): [0, 4, 8, 12, 16],
        TapRequest("rows", "id > 99"): [],
        TapRequest("rows", "1 / id > 0.5"): [1],
        TapRequest("rows", "coalesce(id / cast('x' as int), id) < 3"): [0, 1, 2],
    }
    samples = tapped(job, *wanted)
    for request, ids in wanted.items():
        assert [row["id"] for row in rows_of(samples[request])] == ids, request


def test_changes_have_a_sign(tmp_path: Path) -> None:
    steps = (
        "  kept: {from: totals, where: n % 2 = 1}\nsinks:\n  k: {from: kept, memory: {data: k}}\n"
    )
    text = FUSED.replace("PARALLELISM", "1").replace("sinks:\n", steps)
    job, _ = job_over(tmp_path, text)
    facts, changes = TapRequest("parts.low"), TapRequest("kept", "not _delete or n > 1")
    samples = tapped(job, facts, changes)
    assert "_delete" not in rows_of(samples[facts])[0]
    assert {row["_delete"] for row in rows_of(samples[changes])} == {True, False}


def test_only_so_many_rows_a_second_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    text = FUSED.replace("PARALLELISM", "1")
    many = pl.concat([numbered(start) for start in range(0, 6000, 6)])
    memory = InMemoryData({"rows": {"a": [many, 2.0, many, 2.0]}})
    job = job_of(tmp_path, text, memory, KernelExecutor(), ChannelBounds())
    plain, rare = TapRequest("rows"), TapRequest("even", "id >= 0")
    samples = tapped(job, plain, rare)
    for request, passed in ((plain, 12_000), (rare, 12_000)):
        shown = len(rows_of(samples[request]))
        assert shown == 2 * MAX_SHOWN_ROWS
        # Of rows that were examined, those that do not meet the condition are not dropped.
        dropped = sum(each.dropped for each in samples[request])
        assert passed - 2 * 1000 - shown <= dropped <= passed - shown


def test_a_condition_over_columns_that_are_left_out_says_so(tmp_path: Path) -> None:
    rest = "  rest: {from: parts.else, memory: {data: rest}}\n"
    job, _ = job_over(tmp_path, FUSED.replace("PARALLELISM", "1").replace(rest, ""))
    request = TapRequest("named", "name = 'n2'")
    (sample,) = tapped(job, request)[request]
    assert sample.rejection is not None
    assert sample.rejection.code == "invalid_condition"
    assert sample.rejection.message == "where: the job leaves out name: nothing reads it later"


@pytest.mark.parametrize(
    ("request_", "message", "hint"),
    [
        (TapRequest("evn"), 'unknown source or step "evn"', 'did you mean "even"?'),
        (TapRequest("parts"), "parts has several outputs", "there are parts.low, parts.else"),
        (TapRequest("out"), "out is a sink", "its rows are those of shown"),
        (
            TapRequest("even", "ide > 1"),
            'where:1:1: unknown column "ide"\n    1 | ide > 1\n      | ^^^ did you mean "id"?',
            "",
        ),
        (
            TapRequest("even", "id +"),
            "where:1:4: wanted a value, got the end",
            "",
        ),
        (
            TapRequest("even", "k\n + 1"),
            "where:1:1: wanted a condition (boolean), got bigint\n    1 | k\n      | ^ compare it",
            "",
        ),
    ],
)
def test_a_tap_with_a_mistake_is_rejected(
    tmp_path: Path, request_: TapRequest, message: str, hint: str
) -> None:
    plan = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))[0].plan
    with pytest.raises(TapError) as raised:
        check_tap(plan, request_)
    assert (raised.value.message.split("\n    1 | id +")[0], raised.value.hint) == (message, hint)


def test_a_tap_that_is_removed_leaves_nothing_behind(tmp_path: Path) -> None:
    job, _ = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))
    request, samples = TapRequest("rows"), list[TapSample]()

    def receive(sample: TapSample) -> None:
        samples.append(sample)
        job.taps.remove(request)

    job.taps.add(request, receive)
    assert run_simulated(job, 1).failure is None
    assert len(samples) == 1


def test_an_error_of_a_receiver_ends_its_tap_and_no_other(tmp_path: Path) -> None:
    job, _ = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))
    broken, other = TapRequest("rows", "id >= 0"), TapRequest("rows")
    received, samples = list[TapSample](), list[TapSample]()

    def receive(sample: TapSample) -> None:
        received.append(sample)
        if sample.rejection is None:
            raise ValueError("no room")

    job.taps.add(broken, receive)
    job.taps.add(other, samples.append)
    assert run_simulated(job, 1).failure is None
    first, last = received
    assert (first.rejection, last.request) == (None, broken)
    assert last.rejection is not None
    assert (last.rejection.code, last.rejection.message) == ("failed", "no room")
    assert [row["id"] for row in rows_of(samples)] == [*range(18)]


def test_a_tap_that_is_added_after_an_attempt_samples_nothing_there(tmp_path: Path) -> None:
    job, _ = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))

    async def add_late() -> set[asyncio.Task[object]]:
        assert (await job.run()).failure is None
        job.taps.add(TapRequest("rows"), lambda sample: None)
        current = asyncio.current_task()
        return {task for task in asyncio.all_tasks() if task is not current}

    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        assert runner.run(add_late()) == set()


def panic() -> int:
    """A clock that fails as Polars does, by an exception that is no `Exception`."""
    raise pl.exceptions.PanicException("oh")


def test_a_panic_ends_its_tap_and_no_other(tmp_path: Path) -> None:
    job, _ = job_over(tmp_path, FUSED.replace("PARALLELISM", "1"))
    broken, other = TapRequest("rows", "id >= 0"), TapRequest("rows")
    taps = [RowTap(check_tap(job.plan, each), TapPoint(), panic) for each in (broken, other)]
    for tap in taps:
        tap.offer(numbered(0))
    first, second = flush_taps(taps)
    assert first.rejection is not None
    assert (first.rejection.code, first.rejection.message) == ("failed", "oh")
    assert second.rows is not None
    assert (second.rejection, second.rows.height) == (None, 6)


def test_a_tap_goes_on_when_the_job_restarts(tmp_path: Path) -> None:
    (tmp_path / "f.py").write_text(
        "from pathlib import Path\n\nFAILED = Path(__file__).with_name('failed')\n\n"
        "def f(rows):\n    if rows['id'].max() > 5 and not FAILED.exists():\n"
        "        FAILED.touch()\n        raise ValueError('once')\n    return rows.select('id')\n"
    )
    job, _ = job_over(tmp_path, RESTARTED)
    store = LocalSnapshotStore(MemoryDisk(), "/checkpoints", "0" * 32)
    store.prepare()
    policy = RestartPolicy(FixedRestart.model_construct(attempts=1, delay=timedelta(seconds=1)))
    job.spec = replace(job.spec, storage=CheckpointStorage(store, policy))
    request = TapRequest("same")
    ids = [row["id"] for row in rows_of(tapped(job, request)[request])]
    assert (tmp_path / "failed").exists()
    assert ids == [*range(6), *range(18)]
