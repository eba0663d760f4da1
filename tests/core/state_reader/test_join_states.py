"""The state of joins and broadcasts, as rows for people."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from headrace.core.state_reader.join_states import JoinStateReader
from headrace.core.state_reader.state_schema import JoinStateSchema
from headrace.core.state_reader.step_states import StepStateReader
from headrace.state.rocks.backend import RocksBackend
from headrace.state.savepoints.creation import take_savepoint
from headrace.state.savepoints.savepoint import open_savepoint
from tests.support.stopped_jobs import Stopped, read, said

SIDES = "left: {from: rows, as: a}, right: {from: rows, as: b}"
EQUAL = f"{SIDES}, on: a.k = b.k"
BOTH = "select: {k: a.k, v: a.v, w: b.v}"
MADE = (
    "}\n  mine: {from: rows, key: k, aggregate: {n: count(*), m: max(v)}"
    "}\n  theirs: {from: rows, key: [k, s], aggregate: {n: count(*)}"
)
TABLE = "join: {left: mine, right: theirs, on: mine.k = theirs.k, type: inner, ttl: 1h}"
RULES = "from: rows, broadcast: {rules: {from: rows, as: r}, on: rows.v < r.v"

KNOWN = {
    "within": (
        f"join: {{{EQUAL}, within: [-1s, 5s]}}, {BOTH}",
        {
            "left: k a.v event_time until": ["1 3 2 7", "1 1 4 9", "2 7 7 12"],
            "right: k b.v event_time until": ["2 7 7 8"],
        },
    ),
    "a key that is made": (
        f"join: {{{SIDES}, on: a.k % 2 = b.v, within: 10s}}, {BOTH}",
        {
            "left: key1 a.k a.v event_time until": [
                *("0 2 2 1 11", "0 2 7 7 17", "1 1 1 0 10", "1 1 3 2 12", "1 1 1 4 14"),
            ],
            "right: v event_time until": [
                *("1 0 10", "1 4 14", "2 1 11", "3 2 12", "4 3 13", "7 7 17"),
            ],
        },
    ),
    "for ever": (
        f"join: {{{EQUAL} and a.s = 'b'}}, {BOTH}",
        {"left: k a.s a.v event_time": ["1 a 1 0", "1 c 3 2", "1 - 1 4", "2 b 2 1", "2 b 7 7"]},
    ),
    "as_of": (
        f"join: {{{EQUAL}, as_of: true, ttl: 1m}}, {BOTH}",
        {
            "left: k a.v event_time": ["2 7 7"],
            "right: k b.v event_time": ["2 7 7"],
            "versions: k b.v event_time until": ["1 1 4 64", "2 2 1 61"],
        },
    ),
    "windows": (
        f"join: {{{EQUAL}}}, window: {{slide: 10s, every: 5s}}, {BOTH}",
        {
            "left: k a.v window_start window_end": [
                *("1 1 0 10", "1 1 0 10", "1 3 0 10", "2 2 0 10", "2 7 0 10", "2 7 5 15"),
            ],
        },
    ),
    "sessions": (
        f"join: {{{EQUAL}}}, window: {{session: 1s, lateness: 1h}}, {BOTH}",
        {
            "left: k a.v event_time": ["2 7 7"],
            "shown_left: k a.v window_start window_end event_time": [
                *("1 1 0 1 0", "1 1 4 5 4", "1 3 2 3 2", "2 2 1 2 1"),
            ],
        },
    ),
    "one window": (
        f"join: {{{SIDES}, on: a.s = b.s}}, window: {{global: true}}, {BOTH}",
        {"right: s b.v event_time": ["a 1 0", "a 4 3", "b 2 1", "b 7 7", "c 3 2"]},
    ),
    "changes": (
        f"{TABLE}, select: {{k: mine.k, j: theirs.k, s: s, m: m, n: theirs.n}}{MADE}",
        {
            "keys: k side row m s theirs.n event_time until": [
                *(
                    "1 mine - 3 - - 4 3604",
                    "1 theirs 1:a - a 1 0 3604",
                    "1 theirs 1:c - c 1 2 3604",
                ),
                *("1 theirs - - - 1 4 3604", "2 mine - 7 - - 7 3607", "2 theirs 1:b - b 2 7 3607"),
            ],
        },
    ),
    "rules": (
        f"{RULES}, keep: {{key: k, ttl: 1m}}}}, select: {{v: rows.v, w: r.v}}",
        {
            "rules: k r.v event_time until": ["- 4 3 63", "1 1 4 64", "2 7 7 67"],
            "waiting: rows.v event_time": ["7 7"],
        },
    ),
}


STATES = [(step, state, rows) for step, states in KNOWN.values() for state, rows in states.items()]
IDS = [f"{what} {state}" for what, (_, states) in KNOWN.items() for state in states]


@pytest.mark.parametrize(("step", "columns", "known"), STATES, ids=IDS)
def test_rows_of_a_state(tmp_path: Path, step: str, columns: str, known: list[str]) -> None:
    state, _, names = columns.partition(": ")
    job = Stopped(tmp_path, step)
    found = job.read(state)
    assert " ".join(found.columns) == names
    assert sorted(said(found)) == sorted(known)
    with job.kept() as kept:
        of_step = StepStateReader.from_document("step", kept.document, kept.thaw_step("step"))
        assert isinstance(of_step.schema, JoinStateSchema)
        assert next(JoinStateReader(of_step.schema).read(state, [], 0)).columns == found.columns
        by = found.select(of_step.list_identity_columns(state))
    if state in ("keys", "versions"):
        assert len({repr(row) for row in by.rows()}) == found.height
        assert "event_time" not in by.columns


@pytest.mark.parametrize("keep", ["{key: {k: k}}", "{ttl: 1h}", "{key: k}, order: arrival"])
def test_the_rules_that_all_subtasks_keep_are_shown_once(tmp_path: Path, keep: str) -> None:
    step = f"{RULES}, keep: {keep}}}, select: {{v: rows.v, w: r.v}}"
    one, three = (
        Stopped(tmp_path / str(number), step, parallelism=number).read("rules") for number in (1, 3)
    )
    assert one.height
    assert sorted(said(three)) == sorted(said(one))


def test_only_the_rows_of_a_key_are_found(tmp_path: Path) -> None:
    within, table, as_of = KNOWN["within"][0], KNOWN["changes"][0], KNOWN["as_of"][0]
    near = Stopped(tmp_path, within, parallelism=2)
    assert said(near.read("left", key="1")) == ["1 3 2 7", "1 1 4 9"]
    assert said(near.read("right", key="2")) == ["2 7 7 8"]
    assert said(Stopped(tmp_path / "t", table).read("keys", key="2")) == [
        "2 mine - 7 - - 7 3607",
        "2 theirs 1:b - b 2 7 3607",
    ]
    assert said(Stopped(tmp_path / "v", as_of).read("versions", key="k=2")) == ["2 2 1 61"]
    rules = RULES.replace("rows.v < r.v", "rows.k = r.k and rows.v < r.v")
    step = f"{rules}}}, select: {{v: rows.v, w: r.v}}"
    for_key = Stopped(tmp_path / "r", step, parallelism=3)
    assert said(for_key.read("waiting", key="2")) == ["2 7 7"]
    assert said(for_key.read("rules", key="2")) == ["2 2 1 -", "2 7 7 -"]


@pytest.mark.parametrize("what", ["within", "as_of", "windows", "changes", "rules"])
def test_savepoints_and_other_backends_have_the_same_rows(tmp_path: Path, what: str) -> None:
    step, states = KNOWN[what]
    folders = iter(range(100))

    def backend() -> RocksBackend:
        return RocksBackend(str(tmp_path / f"live-{next(folders)}"), 1)

    whole = Stopped(tmp_path, step, on_disk=True)
    small = Stopped(tmp_path / "small", step, backend=backend, on_disk=True)
    saved = take_savepoint(whole.home, "0", None, str(tmp_path / "saved"))
    for columns, known in states.items():
        state = columns.partition(":")[0]
        rows = sorted(known)
        assert sorted(said(small.read(state))) == rows
        assert sorted(said(read(open_savepoint(saved), state))) == rows


def test_state_of_a_join_may_be_in_several_frames(tmp_path: Path) -> None:
    with Stopped(tmp_path, KNOWN["for ever"][0]).kept() as kept:
        (frozen,) = kept.thaw_step("step")
        frames = frozen.read_runs("left", frozen.groups)
    assert len(frames) > 1
    assert pl.concat(frames).height == 5
