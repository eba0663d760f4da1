"""Files as a sink: what happens to output of other runs, and what survives which crash."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from headrace.connectors.files.names import format_hidden_path
from headrace.connectors.memory import InMemoryData
from headrace.core.api.failures import ConnectorError
from headrace.core.api.splits import Handle
from tests.connectors.files.test_sink import (
    FRAME,
    MINE,
    OTHER,
    fill,
    names,
    numbers,
    simulate,
    written,
)
from tests.support.file_pipelines import JOB, OTHER_JOB, OpenedSink, run, sink_of

TEXT = "{{from: s, files: {{path: out, mode: {}, roll: {{rows: 4}}}}}}"


def sink(
    folder: Path, mode: str = "error", job: str = JOB, *, continues: bool = False, writers: int = 1
) -> OpenedSink:
    return sink_of(folder, TEXT.format(mode), job=job, continues=continues, writers=writers)


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A folder with output of another run, and things that are none."""
    other = sink(tmp_path, job=OTHER_JOB)
    other.check()
    other.commit(written(other, FRAME))
    written(other, FRAME, subtask=1)
    (tmp_path / "out/_SUCCESS").touch()
    (tmp_path / "out/notes.txt").touch()
    (tmp_path / "out/day=1").mkdir()
    (tmp_path / "out/day=1/part-00000-of-spark.json").touch()
    return tmp_path


OLD = ["day=1/part-00000-of-spark.json", *(f"{OTHER}-0-{at}.jsonl" for at in range(3))]
NONE = ["_SUCCESS", "notes.txt"]
NOT_COMMITTED = [f".inprogress-{OTHER}-1-{at}.jsonl.tmp" for at in range(3)]
NEW = [f"{MINE}-0-{at}.jsonl" for at in range(3)]


def test_output_of_another_run_is_refused(used: Path) -> None:
    with pytest.raises(ConnectorError) as raised:
        sink(used).check()
    assert raised.value.message == f"out holds output of another run: {OLD[0]} and 3 more"
    assert raised.value.hint == "mode: append writes next to it, mode: overwrite replaces it"
    assert raised.value.exit_status == 3
    assert names(used / "out") == sorted([*OLD, *NONE, *NOT_COMMITTED])


def test_what_is_no_output_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out/sub").mkdir(parents=True)
    for name in (*NONE, NOT_COMMITTED[0], "sub/part-1", "data.jsonl"):
        (tmp_path / "out" / name).touch()
    sink(tmp_path).check()


def test_append_leaves_existing_files(used: Path) -> None:
    out = sink(used, "append")
    out.check()
    out.commit(written(out, FRAME))
    assert names(used / "out") == sorted([*OLD, *NONE, *NOT_COMMITTED, *NEW])


def test_overwrite_removes_the_old_parts_at_the_first_commit(used: Path) -> None:
    out = sink(used, "overwrite")
    out.check()
    handle = written(out, FRAME)
    later = [format_hidden_path(name) for name in NEW]
    assert names(used / "out") == sorted([*OLD, *NONE, *NOT_COMMITTED, *later])
    out.commit(handle)
    assert names(used / "out") == sorted([*NONE, *NOT_COMMITTED, *NEW])
    (used / "out" / OLD[1]).touch()
    out.commit(written(out, FRAME))
    assert OLD[1] in names(used / "out"), "what came since the start is not ours to remove"


def test_overwrite_waits_for_the_first_parts_of_every_subtask(used: Path) -> None:
    out = sink(used, "overwrite", writers=3)
    out.check()
    writers = [out.create_writer(subtask) for subtask in range(3)]
    handles = [
        simulate(partial(fill, writer, [FRAME] * (at > 0))) for at, writer in enumerate(writers)
    ]
    for at, handle in enumerate(handles):
        assert (OLD[0] in names(used / "out")) and handle is not None, at
        out.commit(handle)
    assert not set(OLD) & set(names(used / "out"))


def test_overwrite_without_rows_leaves_none(used: Path) -> None:
    memory = InMemoryData(inputs={"in": {"a": [FRAME.clear()]}})
    text = """
sources:
  s: {memory: {data: in}, schema: {id: bigint, name: string}}
sinks:
  o: {from: s, files: {path: out, mode: overwrite}}
"""
    assert run(used, text, memory=memory).failure is None
    assert names(used / "out") == sorted([*NONE, *NOT_COMMITTED])


@pytest.mark.parametrize("mode", ["error", "overwrite"])
def test_a_resumed_job_does_not_replace_output_of_another_run(used: Path, mode: str) -> None:
    with pytest.raises(ConnectorError) as raised:
        sink(used, mode, continues=True).check()
    assert raised.value.exit_status == 3
    assert raised.value.message.startswith("o: out holds output of another run: day=1/part-00000")
    assert "--set sinks.o.files.mode=append writes next to it" in raised.value.hint
    assert names(used / "out") == sorted([*OLD, *NONE, *NOT_COMMITTED])
    sink(used, "append", continues=True).check()


def test_a_resumed_job_may_write_into_a_new_folder(
    tmp_path: Path,
) -> None:
    for mode in ("error", "overwrite", "append"):
        sink(tmp_path, mode, continues=True).check()


@pytest.mark.parametrize(("began", "mode"), [(OTHER_JOB, "overwrite"), (JOB, "append")])
def test_later_runs_leave_the_files_that_their_job_found(used: Path, began: str, mode: str) -> None:
    first = sink(used, mode, job=began)
    kept = first.create_writer(0).snapshot_state()
    for _ in range(3):
        # Each attempt starts with the state of the one before; its commits are repeated.
        out = sink(used, "overwrite")
        writer = out.create_writer(0, [kept or {}])
        handle = simulate(partial(fill, writer, [FRAME]))
        assert handle is not None
        out.commit(handle)
        sink(used, "overwrite").commit(handle)
        kept = writer.snapshot_state()
        assert set(OLD) <= {*names(used / "out")}


def test_a_run_that_fails_leaves_the_old_output(used: Path) -> None:
    memory = InMemoryData(inputs={"in": {"a": [FRAME, FRAME]}})
    (used / "f.py").write_text("def f(row):\n    return {'id': 1 // (row['id'] - 9)}\n")
    text = """
sources:
  s: {memory: {data: in}, schema: {id: bigint, name: string}}
steps:
  m: {from: s, map: {python: f.py:f, returns: {id: bigint}, mode: row}}
sinks:
  o: {from: m, files: {path: out, mode: overwrite}}
"""
    outcome = run(used, text, memory=memory)
    assert outcome.failure is not None and "ZeroDivisionError" in outcome.failure.message
    assert names(used / "out") == sorted([*OLD, *NONE, *NOT_COMMITTED])


def crashed(folder: Path, handle: Handle) -> Iterator[None]:
    """Every state in which a crash can leave the parts of a commit, one after the other."""
    parts = [str(part["path"]) for part in handle["parts"]]  # type: ignore[attr-defined]
    texts = [(folder / format_hidden_path(part)).read_bytes() for part in parts]
    for states in itertools.product(("hidden", "both", "named"), repeat=len(parts)):
        for part, text, state in zip(parts, texts, states, strict=True):
            (folder / part).unlink(missing_ok=True)
            (folder / format_hidden_path(part)).unlink(missing_ok=True)
            (folder / (part if state == "named" else format_hidden_path(part))).write_bytes(text)
            if state == "both":
                os.link(folder / format_hidden_path(part), folder / part)
        yield


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_commit_can_be_repeated_after_any_crash(used: Path, mode: str) -> None:
    out = used / "out"
    handle = written(sink(used, mode), FRAME)
    old = {name: (out / name).read_bytes() for name in OLD}
    for _ in crashed(out, handle):
        for name, text in old.items():
            (out / name).parent.mkdir(exist_ok=True)
            (out / name).write_bytes(text)
        sink(used, mode).commit(handle)
        kept = [] if mode == "overwrite" else OLD
        assert names(out) == sorted([*kept, *NONE, *NOT_COMMITTED, *NEW])


def test_a_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    out = sink(tmp_path)
    handle = written(out, FRAME)
    (tmp_path / "out" / NEW[1]).write_text("something else")
    with pytest.raises(ConnectorError, match="already exists, and is another file"):
        out.commit(handle)
    assert (tmp_path / "out" / NEW[1]).read_text() == "something else"
    (tmp_path / "out" / format_hidden_path(NEW[1])).unlink()
    with pytest.raises(ConnectorError, match="already exists, and is another file"):
        out.commit(handle)


def test_a_name_taken_by_the_same_bytes_is_as_good(tmp_path: Path) -> None:
    out = sink(tmp_path)
    handle = written(out, FRAME)
    (tmp_path / "out" / NEW[1]).write_bytes(
        (tmp_path / "out" / format_hidden_path(NEW[1])).read_bytes()
    )
    out.commit(handle)
    assert names(tmp_path / "out") == NEW


def test_missing_or_truncated_prepared_output_is_reported(tmp_path: Path) -> None:
    out = sink(tmp_path)
    handle = written(out, FRAME)
    os.truncate(tmp_path / "out" / format_hidden_path(NEW[1]), 5)
    with pytest.raises(ConnectorError, match="is not what was prepared"):
        out.commit(handle)
    (tmp_path / "out" / format_hidden_path(NEW[1])).unlink()
    with pytest.raises(ConnectorError, match="was prepared, and is missing"):
        out.commit(handle)
    assert NEW[1] not in names(tmp_path / "out")


def test_a_sequence_rises_above_all_that_is_there(used: Path) -> None:
    for first in (0, 3, 6):
        out = sink(used, "append")
        out.check()
        out.commit(written(out, FRAME))
        expected = [f"{MINE}-0-{at}.jsonl" for at in range(first + 3)]
        assert [name for name in names(used / "out") if name.startswith(MINE)] == expected
        first += 3


def test_what_a_dead_run_of_this_job_left_is_removed(used: Path) -> None:
    out = sink(used, "append")
    out.check()
    written(out, FRAME)
    assert format_hidden_path(NEW[0]) in names(used / "out")
    sink(used, "append").check()
    assert names(used / "out") == sorted([*OLD, *NONE, *NOT_COMMITTED])


def test_a_part_that_another_run_is_writing_is_noticed(tmp_path: Path) -> None:
    sinks = (sink(tmp_path), sink(tmp_path))
    writers = [one.create_writer(0) for one in sinks]
    simulate(lambda: fill(writers[0], [FRAME]))
    with pytest.raises(ConnectorError, match="already exists") as raised:
        simulate(lambda: fill(writers[1], [FRAME]))
    assert raised.value.hint.startswith("another sink, or another run, writes into this folder")
    simulate(writers[1].close)
    assert names(tmp_path / "out") == [format_hidden_path(name) for name in NEW]


def test_of_two_runs_at_once_the_first_to_end_has_the_folder(tmp_path: Path) -> None:
    first, second = sink(tmp_path), sink(tmp_path, job=OTHER_JOB)
    first.check()
    second.check()
    handles = written(first, FRAME), written(second, FRAME)
    first.commit(handles[0])
    with pytest.raises(ConnectorError, match="out holds output of another run"):
        second.commit(handles[1])
    second.abort(handles[1])
    assert names(tmp_path / "out") == NEW


KILLED = """
import asyncio, json, sys
from pathlib import Path
from tests.support.file_pipelines import sink_of
from tests.connectors.files.test_sink import FRAME

async def main():
    sink = sink_of(Path(sys.argv[1]), "{from: s, files: {path: out, roll: {rows: 3}}}")
    sink.check()
    writer = sink.create_writer(0)
    while True:
        await writer.write(FRAME)
        handle = await writer.prepare()
        print(json.dumps(handle), flush=True)
        sink.commit(handle)

asyncio.run(main())
"""


@pytest.mark.parametrize("commits", [1, 7, 20])
def test_a_killed_process_leaves_whole_parts_and_nothing_else(tmp_path: Path, commits: int) -> None:
    arguments = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(commits)]
        process.kill()
        # A line that the kill cut off was never emitted.
        lines += [line for line in process.stdout if line.endswith("\n")]
    seen = numbers(tmp_path / "out")
    assert len(seen) >= 10 * (len(lines) - 1)
    again = sink_of(tmp_path, "{from: s, files: {path: out, roll: {rows: 3}}}")
    for line in lines:
        again.commit(json.loads(line))
    again.check()
    assert numbers(tmp_path / "out") == sorted([*range(10)] * len(lines))
    assert all(name.startswith(MINE) for name in names(tmp_path / "out"))
