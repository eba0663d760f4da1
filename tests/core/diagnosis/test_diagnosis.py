"""Stuck and healthy jobs, and what the diagnosis says of them.

The jobs run on virtual time with the real runtime, and are sampled every five seconds, as
`headrace run` does it.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from headrace.connectors.memory import InMemoryData, MemoryEvent
from headrace.connectors.memory_lookup import LookupTableData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.checkpoint.storage import CheckpointStorage
from headrace.core.coordination.checkpoint_coordinator import CheckpointSchedule
from headrace.core.coordination.restart import RestartPolicy
from headrace.core.dataflow.channel import ChannelBounds
from headrace.core.diagnosis.diagnosis import diagnose
from headrace.core.diagnosis.figures import FigureHistory, collect_figures
from headrace.core.diagnosis.findings import Finding
from headrace.core.job.job import Job
from headrace.core.pipeline.settings import FixedRestart, NoRestart, Restart
from headrace.core.testing.simulated_loop import SimulatedLoop
from headrace.state.storage.local_store import LocalSnapshotStore
from headrace.state.storage.memory_disk import MemoryDisk
from tests.core.dataflow.test_backpressure import SlowMemory
from tests.support.runtime.memory_pipelines import job_of

START = datetime(2026, 1, 31, 8, tzinfo=UTC)
FOREVER = 1e6
"""A pause that outlasts every test."""


def at(second: float, key: int = 0) -> pl.DataFrame:
    """Return one row with a time in seconds after the start."""
    when = START + timedelta(seconds=second)
    return pl.DataFrame(
        {"at": [when], "key": [key], "x": [1]}, schema_overrides={"at": pl.Datetime("us", "UTC")}
    )


def every_second(count: int, first: int = 0) -> list[MemoryEvent]:
    """Return a row in each second, at its own time, and then nothing more."""
    rows: list[MemoryEvent] = []
    for second in range(first, first + count):
        rows += [at(second, second % 7), 1.0]
    return [*rows, FOREVER]


def diagnosed(
    folder: Path,
    text: str,
    memory: InMemoryData,
    seconds: float,
    bounds: ChannelBounds | None = None,
    prepare: Callable[[Job], None] = lambda job: None,
) -> dict[str, Finding]:
    """Return the findings after this time, by cause and part."""
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(1)) as runner:
        start_s = runner.get_loop().time()

        def now_us() -> int:
            passed = timedelta(seconds=asyncio.get_running_loop().time() - start_s)
            return int((START + passed).timestamp() * 1e6)

        job = job_of(
            folder, text, memory, KernelExecutor(), bounds or ChannelBounds(), now_us=now_us
        )
        prepare(job)
        found = runner.run(_sample(job, seconds))
    return {f"{each.cause} {each.part}".strip(): each for each in found}


async def _sample(job: Job, seconds: float) -> Sequence[Finding]:
    history, running = FigureHistory(), asyncio.create_task(job.run())
    for _ in range(int(seconds // 5)):
        await asyncio.sleep(5)
        figures = collect_figures(job)
        history.record(figures)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    return diagnose(figures, history)


SOURCE = """
sources:
  s:
    memory: {data: in}
    schema: {at: timestamp, key: bigint, x: bigint}
    event_time: at
"""
ALONE = f"{SOURCE}\nsinks: {{out: {{from: s, memory: {{data: out}}}}}}"
WINDOWS = f"""{SOURCE}
steps:
  n: {{from: s, key: key, window: {{tumble: 10s}}, aggregate: {{n: count(*)}}}}
sinks: {{out: {{from: n, memory: {{data: out}}}}}}
"""


def test_idle_split(tmp_path: Path) -> None:
    memory = InMemoryData({"in": {"a": every_second(100), "b": [at(0), at(1), at(2), FOREVER]}})
    found = diagnosed(tmp_path, WINDOWS, memory, 60)
    assert [*found] == ["idle_split s", "windows_wait n"]
    idle = found["idle_split s"]
    assert idle.message.startswith("split b has no rows and holds the watermark at ")
    assert "08:00:02" in idle.message
    assert idle.message.endswith("n waits for it")
    assert idle.setting == "`watermark: {idle: 30s}` of source s"
    assert idle.since_us is not None
    assert "wait for the watermark to pass 2026-01-31T08:00:10" in found["windows_wait n"].message


def test_time_that_does_not_grow(tmp_path: Path) -> None:
    rows: list[MemoryEvent] = []
    for _ in range(100):
        rows += [at(3), 1.0]
    found = diagnosed(tmp_path, WINDOWS, InMemoryData({"in": {"a": rows}}), 60)
    assert [*found] == ["watermark_stands_still s", "windows_wait n"]
    assert "`event_time:` of source s" in found["watermark_stands_still s"].setting


def test_missing_watermark(tmp_path: Path) -> None:
    text = WINDOWS.replace(
        "event_time: at", "event_time: at\n    watermark: {from: 'if(x > 5, at, null)'}"
    )
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 60)
    assert [*found] == ["watermark_stands_still s", "windows_wait n"]
    stands = found["watermark_stands_still s"]
    assert "the watermark stays at its start" in stands.message
    assert "its value is null" in stands.setting


def test_future_time(tmp_path: Path) -> None:
    rows = [*every_second(5)[:-1], at(86_400 * 3), *every_second(100, 5)]
    found = diagnosed(tmp_path, WINDOWS, InMemoryData({"in": {"a": rows}}), 60)
    assert "future_watermark s" in found
    assert "late_rows n" in found
    assert "2d ahead of the clock" in found["future_watermark s"].message
    assert "on_error: skip" in found["future_watermark s"].setting


def test_late_rows(tmp_path: Path) -> None:
    rows: list[MemoryEvent] = []
    for second in range(100):
        rows += [at(second), at(second - 30), 1.0]
    found = diagnosed(tmp_path, WINDOWS, InMemoryData({"in": {"a": rows}}), 60)
    assert [*found] == ["late_rows n"]
    assert "`watermark: {delay: ...}` of s" in found["late_rows n"].setting
    assert found["late_rows n"].message.endswith(" for their windows")


def test_late_row_after_which_none_was_late(tmp_path: Path) -> None:
    rows = [*every_second(30)[:-1], at(1), *every_second(70, 30)]
    found = diagnosed(tmp_path, WINDOWS, InMemoryData({"in": {"a": rows}}), 60)
    assert found["late_rows n"].message.endswith("for their windows, none in the last 25s")


def test_where_that_is_never_true(tmp_path: Path) -> None:
    text = f"""{SOURCE}
steps: {{large: {{from: s, where: x > 5}}}}
sinks: {{out: {{from: large, memory: {{data: out}}}}}}
"""
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 30)
    assert [*found] == ["where_passes_nothing large"]
    assert "`where: x > 5`" in found["where_passes_nothing large"].message


def test_where_before_an_aggregate(tmp_path: Path) -> None:
    text = WINDOWS.replace("from: s, key", "from: s, where: x > 5, key")
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 30)
    assert [*found] == ["where_passes_nothing n"]


DRIFT = ALONE.replace("event_time: at", "event_time: at\n    watermark: {max_drift: 5s}")


def test_splits_that_wait_for_one_without_rows(tmp_path: Path) -> None:
    splits: dict[str, list[MemoryEvent]] = {
        "a": every_second(100),
        "b": [at(0), at(1), FOREVER],
    }
    found = diagnosed(tmp_path, DRIFT, InMemoryData({"in": splits}), 60)
    assert [*found] == ["drift_pauses s"]
    pauses = found["drift_pauses s"]
    assert pauses.message.startswith(
        "split a is not read, more than 5s ahead of split b, which is "
    )
    assert "`watermark: {idle: 30s}` of source s, or a longer `max_drift:`" in pauses.setting


def test_splits_that_wait_for_a_slower_one_are_no_cause(tmp_path: Path) -> None:
    slow: list[MemoryEvent] = []
    for second in range(100):
        slow += [at(second / 4), 1.0]
    fast: list[MemoryEvent] = [at(second) for second in range(100)]
    splits = {"a": fast, "b": slow}
    assert diagnosed(tmp_path, DRIFT, InMemoryData({"in": splits}), 60) == {}


def test_empty_input(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, WINDOWS, InMemoryData({"in": {"a": [FOREVER]}}), 30)
    assert [*found] == ["no_rows s"]
    assert found["no_rows s"].message.startswith("no row yet")
    assert "`memory:` of s" in found["no_rows s"].setting


def test_input_that_ends_being_written(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, WINDOWS, InMemoryData({"in": {"a": every_second(30)}}), 120)
    assert "no_rows s" in found
    assert "no row after the first 30" in found["no_rows s"].message


def test_splits_that_are_read_to_the_end_while_others_are_awaited(tmp_path: Path) -> None:
    text = WINDOWS.replace("memory: {data: in}", "memory: {data: in, watch: 1s}")
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(3)[:-1]}}), 60)
    assert "no row after the first 3; its split is read to the end" in found["no_rows s"].message


def test_table_that_seldom_changes_while_rows_go_on(tmp_path: Path) -> None:
    text = f"""{SOURCE}
  names: {{memory: {{data: t}}, schema: {{key: bigint}}}}
steps:
  named: {{join: {{left: s, right: names, on: s.key = names.key}}, select: {{x: s.x}}}}
sinks: {{out: {{from: named, memory: {{data: out}}}}}}
"""
    memory = InMemoryData({"in": {"a": every_second(100)}, "t": {"b": every_second(7)}})
    assert diagnosed(tmp_path, text, memory, 60) == {}


def keyed_chunks(keys: Sequence[int]) -> list[MemoryEvent]:
    """Return chunks of ten rows without pauses between them."""
    one = [at(0, key) for key in keys]
    return [pl.concat(one[n : n + 10]) for n in range(0, len(one), 10)]


def test_skewed_key(tmp_path: Path) -> None:
    text = f"""{SOURCE}
steps: {{n: {{from: s, key: key, aggregate: {{n: count(*)}}, parallelism: 4}}}}
sinks: {{out: {{from: n, memory: {{data: out}}, parallelism: 4}}}}
"""
    keys = [number % 40 if number % 10 == 0 else 3 for number in range(4_000)]
    memory = SlowMemory({"in": {"a": keyed_chunks(keys)}}, write_s=0.5)
    found = diagnosed(tmp_path, text, memory, 30, ChannelBounds(rows=10))
    assert [*found] == ["skew n"]
    assert "of 4 gets 9" in found["skew n"].message
    assert "`key:` of step n" in found["skew n"].setting


def test_step_without_a_key_at_a_higher_parallelism(tmp_path: Path) -> None:
    text = f"""{SOURCE}
steps: {{n: {{from: s, aggregate: {{n: count(*)}}, parallelism: 4}}}}
sinks: {{out: {{from: n, memory: {{data: out}}, parallelism: 4}}}}
"""
    memory = SlowMemory({"in": {"a": keyed_chunks([*range(4_000)])}}, write_s=0.5)
    found = diagnosed(tmp_path, text, memory, 30, ChannelBounds(rows=10))
    assert [*found] == ["skew n"]
    assert "gets 100% of the rows, since the step has no key" in found["skew n"].message


def test_slow_sink_of_its_own_task(tmp_path: Path) -> None:
    text = f"""{SOURCE}
sinks: {{out: {{from: s, memory: {{data: out}}, parallelism: 2}}}}
"""
    memory = SlowMemory({"in": {"a": keyed_chunks(range(1_000))}}, write_s=1.0)
    found = diagnosed(tmp_path, text, memory, 30, ChannelBounds(rows=10))
    assert [*found] == ["backpressure out"]
    assert found["backpressure out"].message.startswith("s waits 100% of the time for out")
    assert "`parallelism: 4` of sink out" in found["backpressure out"].setting


def test_slow_sink_in_the_task_of_its_source(tmp_path: Path) -> None:
    memory = SlowMemory({"in": {"a": keyed_chunks(range(1_000))}}, write_s=1.0)
    found = diagnosed(tmp_path, ALONE, memory, 30, ChannelBounds(rows=10))
    assert [*found] == ["backpressure out"]


def test_more_subtasks_than_splits(tmp_path: Path) -> None:
    text = f"{ALONE}\nsettings: {{parallelism: 3}}"
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(100)}}), 30)
    assert [*found] == ["subtasks_without_splits s"]
    assert "2 of 3 subtasks" in found["subtasks_without_splits s"].message
    assert "`parallelism: 1` in `settings:`" in found["subtasks_without_splits s"].setting


def bad_every_second() -> list[MemoryEvent]:
    """Return a good and a bad row in each second: the key must not be null."""
    rows: list[MemoryEvent] = []
    for second in range(100):
        bad = at(second).with_columns(key=pl.lit(None, pl.Int64))
        rows += [at(second), bad, 1.0]
    return rows


def test_bad_rows_that_are_skipped(tmp_path: Path) -> None:
    text = SOURCE.replace("key: bigint,", "key: bigint not null,")
    text += "    on_error: skip\nsinks: {out: {from: s, memory: {data: out}}}"
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": bad_every_second()}}), 30)
    assert [*found] == ["bad_rows s"]
    assert "are bad and are left out" in found["bad_rows s"].message
    assert "`on_error:` of source s" in found["bad_rows s"].setting


LOOKUP = f"""{SOURCE}
steps:
  named:
    from: s
    lookup:
      memory: {{data: names}}
      on: {{key: key}}
      add: {{name: string}}
      timeout: 2s
      retries: 50
sinks: {{out: {{from: named, memory: {{data: out}}}}}}
"""
NAMES = pl.DataFrame({"key": [0], "name": ["a"]})


def test_lookup_that_does_not_answer_in_time(tmp_path: Path) -> None:
    memory = InMemoryData(
        {"in": {"a": every_second(100)}},
        tables={"names": LookupTableData(NAMES, lambda number, keys: 60.0)},
    )
    found = diagnosed(tmp_path, LOOKUP, memory, 30)
    assert "lookup_waits named" in found
    assert "`timeout: 2s`, `retries: 50`" in found["lookup_waits named"].setting


def on_a_disk(job: Job, before: Callable[[str, str], None], restart: Restart) -> None:
    """Give a job checkpoints every second, on a disk whose operations `before` may fail."""
    store = LocalSnapshotStore(MemoryDisk(before), "/checkpoints", "0" * 32)
    store.prepare()
    storage = CheckpointStorage(
        store, RestartPolicy(restart), CheckpointSchedule(1.0, tolerable_failures=1000)
    )
    job.spec = replace(job.spec, storage=storage)


def test_failing_checkpoints(tmp_path: Path) -> None:
    is_full = False

    def before(operation: str, path: str) -> None:
        if is_full and operation == "write":
            raise OSError(errno.ENOSPC, "no space left on device", path)

    def prepare(job: Job) -> None:
        nonlocal is_full
        on_a_disk(job, before, NoRestart())
        is_full = True

    memory = InMemoryData({"in": {"a": every_second(100)}})
    found = diagnosed(tmp_path, ALONE, memory, 30, prepare=prepare)
    assert [*found] == ["checkpoints_fail"]
    assert "no space left" in found["checkpoints_fail"].message.lower()
    assert "`dir:`" in found["checkpoints_fail"].setting


def test_restart_loop(tmp_path: Path) -> None:
    def fail(number: int, keys: object) -> ConnectorError | None:
        return ConnectorError("the server is down")

    memory = InMemoryData(
        {"in": {"a": every_second(100)}},
        tables={"names": LookupTableData(NAMES, find_failure=fail)},
    )
    text = LOOKUP.replace("retries: 50", "retries: 0")

    def prepare(job: Job) -> None:
        on_a_disk(job, lambda operation, path: None, FixedRestart())

    found = diagnosed(tmp_path, text, memory, 30, prepare=prepare)
    assert "restarts" in found
    assert "the server is down" in found["restarts"].message
    assert "`restart:` in `settings:`" in found["restarts"].setting


def test_healthy_jobs_have_no_findings(tmp_path: Path) -> None:
    idle = WINDOWS.replace("event_time: at", "event_time: at\n    watermark: {idle: 5s}")
    two: dict[str, list[MemoryEvent]] = {"a": every_second(200), "b": [at(0), FOREVER]}
    cases: list[tuple[str, dict[str, list[MemoryEvent]]]] = [
        (ALONE, {"a": every_second(200)}),
        (WINDOWS, {"a": every_second(200), "b": every_second(200)}),
        (idle, two),
    ]
    for text, splits in cases:
        assert diagnosed(tmp_path, text, InMemoryData({"in": splits}), 120) == {}


WAIT = """\
from datetime import timedelta

from headrace import Out, Process, Row, timer, value


class Wait(Process):
    x = value("bigint")
    again = timer(time="processing")

    def on_row(self, row, state, out):
        state.x, state.again = row.x, self.now + timedelta(seconds=1)

    def on_timer(self, at, state, out):
        out(key=self.key, x=state.x)
"""


LOOP = f"""{SOURCE}
steps:
  entered: {{from: s, select: [key, x]}}
  tries: {{iterate: {{from: entered, until: x > 5, feedback: once}}}}
  once:
    from: tries.loop
    key: key
    process: {{python: wait.py:Wait, order: arrival, returns: {{key: bigint, x: bigint}}}}
sinks: {{out: {{from: tries, memory: {{data: out}}}}}}
"""


def test_rows_that_never_leave_a_loop(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(WAIT)
    found = diagnosed(tmp_path, LOOP, InMemoryData({"in": {"a": every_second(5)}}), 60)
    finding = found["rows_go_round tries"]
    assert "none has left the loop, and none has entered it" in finding.message
    assert "`until:` of step tries" in finding.setting


def test_rows_that_leave_a_loop_from_inside(tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text(WAIT)
    text = LOOP.replace("{from: tries, memory", "{from: once, memory")
    found = diagnosed(tmp_path, text, InMemoryData({"in": {"a": every_second(5)}}), 60)
    assert not any(name.startswith("rows_go_round") for name in found)
