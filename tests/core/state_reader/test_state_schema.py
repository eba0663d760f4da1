"""State whose schema is not fully known: of old versions, with secrets, and other cases."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.api.state import NO_CLOCK_US
from headrace.core.pipeline.text import MASK
from headrace.core.state_reader.columns import mask_secret_columns
from headrace.core.state_reader.keyed_states import KeyedStateReader
from headrace.core.state_reader.keys import InvalidKey, parse_key
from headrace.core.state_reader.state_schema import (
    StateSchema,
    UnreadableState,
    read_state_schema,
    rebuild_key,
)
from headrace.core.state_reader.state_statistics import measure_state
from headrace.core.state_reader.step_states import StepStateReader
from tests.support.runtime import changed_pipelines
from tests.support.stopped_jobs import Stopped

RUNNING = "from: rows, key: {odd: k % 2, s: s}, aggregate: {n: count(*), last: last(s)}"
WINDOWS = "from: rows, key: k, window: {tumble: 10s}, aggregate: {n: count(*)}"

COUNTED = WINDOWS.replace("10s", "10s, trigger: {count: 9}")


def test_state_of_an_old_version_is_shown_as_stored(tmp_path: Path) -> None:
    with Stopped(tmp_path, WINDOWS).kept() as kept:
        said: Any = kept.document
        old = {name: part for name, part in said.items() if name != "readings"}
        step = StepStateReader.from_document("step", old, kept.thaw_step("step"))
        assert step.raw_reason == "it was written by a version that did not say how to read it"
        frame = pl.concat(step.read_rows("windows"))
        assert frame.columns == ["__k0", "__slot", "__count(*).count"]
        assert step.key.names == ("k",)


@pytest.mark.parametrize(
    "change",
    [{"of": {"v": "qubit"}}, {"columns": {"n": "summ(v)"}}, {"window": {"shape": {"spiral": {}}}}],
    ids=str,
)
def test_what_a_later_version_says_is_no_reason_to_fail(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    with Stopped(tmp_path, WINDOWS).kept() as kept:
        said: Any = kept.document
        other = {**said, "readings": {"step": {**said["readings"]["step"], **change}}}
        with pytest.raises(UnreadableState, match="it was written by another version"):
            read_state_schema(other, "step")


def test_an_aggregate_made_with_a_secret_is_left_out_and_named(tmp_path: Path) -> None:
    call = "count_if((s = 'swordfish'))"
    secret = f"{MASK} {sha256(call.encode()).hexdigest()[:8]}"
    with Stopped(tmp_path, RUNNING.replace("n: count(*)", f'n: count(*), h: "{call}"')).kept() as k:
        said: Any = k.document
        reading, kept = said["readings"]["step"], said["kept"]["step"]
        columns = {**reading["columns"], "h": MASK}
        calls = {secret if text == call else text: of for text, of in kept["calls"].items()}
        masked = {"kept": {"step": {**kept, "calls": calls}}}
        document = {**said, **masked, "readings": {"step": {**reading, "columns": columns}}}
        step = StepStateReader.from_document("step", document, k.thaw_step("step"))
        assert step.schema is not None
        assert step.schema.hidden_aggregates == ("h",)
        people = pl.concat(step.read_rows("keys"))
        assert people.columns == ["odd", "s", "n", "last", "event_time"]
        raw_columns = pl.concat(step.read_rows("keys", as_kept=True)).columns
    assert f"{secret}.count" in raw_columns
    assert "swordfish" not in repr(raw_columns)


def test_without_a_secret_columns_have_their_names() -> None:
    frame = pl.DataFrame({"__key": ["1:a"], "__count(*).count": [1]})
    assert mask_secret_columns(frame, ["count(*)"]) is frame


KEY = rebuild_key(
    [("k", "bigint"), ("s", "string"), ("at", "timestamp"), ("x", "double")], ["k", "s", "at", "x"]
)


def found(text: str) -> str:
    """Return the encoded key of a text."""
    return parse_key(text, KEY, 128).encoded_key


def test_a_key_is_found_however_it_is_written() -> None:
    known = found("k=7,s=a,at=2026-01-31T08:00:00Z,x=1.5")
    assert known == "1:71:a16:17698464000000003:1.5"
    assert found("x=1.50, at = 2026-01-31 08:00 , s='a', k=7") == known
    assert found("k=7,s=a,at=2026-01-31T09:00:00+01:00,x=1.5") == known
    assert found("k=null,s='a, ''b''=c',at=null,x=-0.0") == "-8:a, 'b'=c-3:0.0"
    assert found("k=1,s='null',at=null,x=nan") == "1:14:null-3:NaN"


def test_a_key_of_one_column_needs_no_name() -> None:
    one = rebuild_key([("s", "string")], ["s"])
    for text in ("a=b", "s=a=b", "'a=b'"):
        assert parse_key(text, one, 128).encoded_key == "3:a=b"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("7", "wanted k and s and at and x of its key as well", "--key k=...,s=...,at=...,x=..."),
        ("k=7,s=a,att=null,x=1", 'its key has no column "att"', 'did you mean "at"?'),
        ("k=seven,s=a,at=null,x=1", 'k: wanted bigint, got "seven"', ""),
        ("k=1.5,s=a,at=null,x=1", 'k: wanted bigint, got "1.5"', ""),
        ("k=7,s=a,at=monday,x=1", 'at: wanted timestamp, got "monday"', "2026-01-31T08:00:00Z"),
    ],
)
def test_a_key_that_cannot_be_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        found(text)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_a_step_without_key_has_none() -> None:
    with pytest.raises(InvalidKey, match='it has no key, got "7"'):
        parse_key("7", rebuild_key([], []), 128)


@pytest.mark.parametrize(
    ("step", "state", "rows", "keys"),
    [
        (RUNNING, "keys", 5, 5),
        ("from: rows, aggregate: {n: count(*)}", "keys", 1, 1),
        (COUNTED, "windows", 3, 3),
        ("from: rows, key: k, window: {count: 4, every: 2}, top: {n: 1, by: v}", "panes", 4, 3),
        ("from: rows, key: k, window: {session: 1s}, aggregate: {n: count(*)}", "shown", 0, 0),
    ],
)
def test_sizes(tmp_path: Path, step: str, state: str, rows: int, keys: int) -> None:
    with Stopped(tmp_path, step, parallelism=2).kept() as kept:
        found = measure_state(state, kept.thaw_step("step"), 128)
    assert (found.rows, found.keys) == (rows, keys)
    assert sum(group.rows for group in found.groups) == rows
    assert len({group.group for group in found.groups}) == len(found.groups)
    most = found.most_loaded
    assert most is None or most.rows == max(group.rows for group in found.groups)


def test_rows_inside_of_a_loop_have_the_columns_of_its_input(tmp_path: Path) -> None:
    loop = "iterate: {from: numbers, until: v > 9, feedback: once}"
    more = (
        "  numbers: {from: rows, select: [k, v]}\n"
        "  once: {from: step.loop, select: {k: k, v: v + 1}}\n"
    )
    plan = changed_pipelines.plan(tmp_path, changed_pipelines.pipeline(loop, more))
    schema = read_state_schema(changed_pipelines.document(plan), "step")
    assert isinstance(schema, StateSchema)
    reader = KeyedStateReader(schema)
    stored = pl.DataFrame({"k": [1, 1], "v": [3, 3]})
    (shown,) = reader.read("loop", [stored], NO_CLOCK_US)
    assert shown.rows() == [(1, 3), (1, 3)]
    (empty,) = reader.read("loop", [], NO_CLOCK_US)
    assert empty.schema == stored.schema
    assert reader.list_identity_columns("loop") == ()


def test_rows_that_a_union_inside_of_a_loop_stores_are_rows(tmp_path: Path) -> None:
    step = "iterate: {bulk: numbers, body: both, rounds: 3}"
    more = (
        "  numbers: {from: rows, select: [k, v]}\n"
        "  bases: {from: rows, select: {k: k + 1, v: v}}\n"
        "  both: {from: [step.loop, bases], key: v, aggregate: {k: max(k)}, select: [k, v]}\n"
    )
    text = changed_pipelines.pipeline(step, more)
    stored = changed_pipelines.document(changed_pipelines.plan(tmp_path, text))
    schema = read_state_schema(stored, "both")
    assert isinstance(schema, StateSchema)
    rows = pl.DataFrame({"__k0": [3, 3], "k": [1, 1], "__weight": [2, -1], "__slot": [0, 0]})
    (shown,) = KeyedStateReader(schema).read("rows", [rows], NO_CLOCK_US)
    assert shown.rows(named=True) == [{"v": 3, "k": 1}]
    same = changed_pipelines.plan(tmp_path, text.replace("max(k)", "min(k)"))
    assert changed_pipelines.refusal(stored, same) == ""
    other = changed_pipelines.plan(tmp_path, text.replace("max(k)", "count(*)"))
    assert "both belongs to another operation" in changed_pipelines.refusal(stored, other)
