"""Matches as the watermark passes: literal rows and times, in seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.core.api.state import StepState
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.operators.matches import match_operator
from headrace.core.operators.matches.match_operator import MatchOperator
from headrace.core.plan import nodes
from headrace.state.memory.backend import MemoryBackend
from tests.support.plans import plan_of
from tests.support.runtime.changelogs import ALL, place
from tests.support.runtime.match_trials import MatchTrial

SOURCE = """name: test
sources:
  rows: {files: {path: in}, schema: {k: string, v: int, at: timestamp}, event_time: at}
"""


class Trial(MatchTrial[MatchOperator]):
    """An operator with the rows that it has emitted."""

    def __init__(
        self, folder: Path, match: str, state: StepState | None = None, *, is_careful: bool = True
    ) -> None:
        sinks = "".join(
            f"  of_{name}: {{from: {name}, console: {{}}}}\n"
            for name in ("late", "partial")
            if f"_to: {name}" in match
        )
        steps = f"steps:\n  s: {{from: rows, key: k, match: {{{match}}}}}\n"
        text = f"{SOURCE}{steps}sinks:\n  out: {{from: s, console: {{}}}}\n{sinks}"
        part = plan_of(folder, text).part("s")
        assert isinstance(part, nodes.Step)
        operation = part.operations[0]
        assert isinstance(operation, nodes.Match)
        super().__init__()
        self.state = state or MemoryBackend().open_state(ALL)
        streams = frozenset({"late", "partial"})
        context = replace(place(self.state), read_streams=streams)
        self.operator = MatchOperator(operation, context, "s", self.fail if is_careful else None)

    def feed(self, *rows: tuple[str, int, int]) -> list[tuple[object, ...]]:
        """Pass rows of key, value and second; return the late ones."""
        return [row[:2] for _, out in self.process(*rows) for row in out.rows()]


def test_a_match_is_emitted_at_the_row_that_decides_it(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "pattern: a b+, define: {a: v = 1, b: v > a.v}, emit: {n: count(b)}")
    trial.feed(("x", 1, 1), ("x", 2, 3), ("y", 1, 2), ("x", 5, 4))
    assert trial.advance(9) == []
    trial.feed(("x", 0, 11))
    assert trial.advance(12) == [("x", 1, 4, 2, 11)]


def test_a_deadline_decides_without_a_row(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "pattern: a -> not b, define: {a: v = 1, b: v = 2}, within: 10s")
    trial.feed(("x", 1, 1), ("y", 1, 2), ("y", 2, 3))
    assert trial.advance(10) == []
    assert trial.advance(11) == [("x", 1, 1, 11)]
    assert trial.advance() == []


def test_rows_behind_the_watermark_are_late(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "pattern: a b, define: {a: v = 1}, within: 9s, late_to: late")
    trial.feed(("x", 1, 5))
    trial.advance(6)
    assert trial.feed(("x", 1, 5), ("x", 2, 6)) == [("x", 1)]
    assert trial.advance() == [("x", 5, 6, 6)]


def test_all_rows_of_a_match_have_its_bounds_and_their_variable(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "pattern: a b, define: {a: v = 1}, all_rows: true")
    trial.feed(("x", 1, 1), ("x", 7, 2))
    rows = trial.advance()
    assert rows == [("x", 1, 2, "a", 1, 1, 2), ("x", 1, 2, "b", 7, 2, 2)]


def test_partial_matches_say_how_far_they_came(tmp_path: Path) -> None:
    match = (
        "pattern: a -> b -> c, define: {a: v = 1, b: v = 2, c: v = 3}, within: 10s, "
        "emit: {last: b.v, n: count(*)}, incomplete_to: partial"
    )
    trial = Trial(tmp_path, match)
    trial.feed(("x", 1, 1), ("x", 2, 3), ("y", 1, 4), ("z", 1, 30))
    assert trial.advance(20) == [
        ("partial", "x", 1, "b", 2, 2, 2, 11),
        ("partial", "y", 4, "a", 1, None, 1, 14),
    ]
    assert trial.advance() == [("partial", "z", 30, "a", 1, None, 1, 40)]


def test_functions_over_all_rows_of_a_variable_are_read_by_conditions(tmp_path: Path) -> None:
    condition = "v > avg(a.v) and v < sum(a.v) and count(*) = count(a) and max(a.v * 2) > v"
    match = f"pattern: a+ b, define: {{a: v < 10, b: '{condition}'}}, emit: {{n: count(a)}}"
    trial = Trial(tmp_path, match)
    trial.feed(("x", 6, 1), ("x", 8, 2), ("x", 12, 3), ("y", 6, 1), ("y", 12, 2))
    assert trial.advance() == [("x", 1, 3, 2, 3)]


def test_many_rows_are_moved_key_by_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_operator, "ROWS_AT_ONCE", 2)
    match = (
        "pattern: a -> b, define: {a: v = 1, b: v = 2}, within: 10s, after_match: none, "
        "max_runs: 2, incomplete_to: partial"
    )
    trial = Trial(tmp_path, match)
    rows = [(key, 1, at) for at in (1, 2, 3) for key in "yxz"]
    trial.feed(*rows, ("y", 2, 4), ("x", 2, 5))
    assert trial.advance(6) == [("y", 1, 4, 4), ("y", 2, 4, 4), ("x", 1, 5, 5), ("x", 2, 5, 5)]
    assert [each.row["v"] for each in trial.failed] == [1, 1, 1]
    assert trial.advance(12) == [("partial", "z", 1, "a", 1, 11), ("partial", "z", 2, "a", 1, 12)]


def test_a_row_with_too_many_runs_fails_and_changes_nothing(tmp_path: Path) -> None:
    match = "pattern: a -> b, define: {a: v = 1, b: v = 2}, after_match: none, max_runs: 2"
    trial = Trial(tmp_path, match)
    trial.feed(("x", 1, 1), ("x", 1, 2), ("x", 1, 3), ("y", 1, 3), ("x", 2, 4))
    assert [row[:2] for row in trial.advance()] == [("x", 1), ("x", 2)]
    assert [each.error for each in trial.failed] == ["more than 2 runs of one key (max_runs)"]
    assert [each.row["v"] for each in trial.failed] == [1]
    alone = Trial(tmp_path, match, is_careful=False)
    alone.feed(("x", 1, 1), ("x", 1, 2), ("x", 1, 3))
    with pytest.raises(ExpressionFailure, match="more than 2 runs of one key"):
        alone.advance()


def test_rows_are_freed_when_no_run_needs_them(tmp_path: Path) -> None:
    trial = Trial(tmp_path, "pattern: a -> b, define: {a: v = 1, b: v = 2}, within: 10s")
    trial.feed(*(("x", 0, at) for at in range(50)), ("x", 1, 50), ("y", 1, 51), ("y", 2, 52))
    trial.advance(53)
    trial.operator.flush_to_state()
    table = trial.state.freeze().read_table("keys", range(ALL.key_groups))
    assert table is not None and table["__rows"].list.len().to_list() == [1]
    trial.advance(70)
    trial.operator.flush_to_state()
    assert trial.operator._runs._cache.keys == {}


def test_the_oldest_of_too_many_keys_are_only_in_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(match_operator, "MAX_KEYS", 2)
    define = "define: {a: v = 1, b: v = 2}"
    trial = Trial(tmp_path, f"pattern: a -> not b, {define}, within: 10s")
    trial.feed(("x", 1, 1), ("y", 1, 2), ("z", 1, 3))
    assert trial.advance(4) == []
    assert list(trial.operator._runs._cache.keys) == ["1:z"]
    trial.feed(("y", 2, 5), ("x", 1, 6), ("w", 0, 7))
    assert trial.advance(11) == [("x", 1, 1, 11)]
    assert trial.advance() == [("z", 3, 3, 13), ("x", 6, 6, 16)]
    timeless = Trial(tmp_path, f"pattern: a b+, {define}")
    timeless.feed(("x", 1, 1), ("y", 1, 2), ("z", 1, 3))
    timeless.advance(4)
    timeless.feed(("x", 2, 5), ("w", 1, 6), ("z", 2, 7))
    assert timeless.advance(8) == []
    assert sorted(timeless.advance()) == [("x", 1, 5, 5), ("z", 3, 7, 7)]


def test_deadlines_are_restored(tmp_path: Path) -> None:
    match = "pattern: a -> not b, define: {a: v = 1, b: v = 2}, within: 10s, after_match: next"
    trial = Trial(tmp_path, match)
    trial.feed(("x", 1, 1), ("x", 1, 4), ("y", 1, 2))
    trial.advance(5)
    trial.operator.flush_to_state()
    owner = replace(ALL, restored_states=(trial.state.freeze(),))
    restored = Trial(tmp_path, match, MemoryBackend().open_state(owner))
    assert restored.operator._runs._cache.keys.keys() == {"1:x", "1:y"}
    assert restored.advance(11) == [("x", 1, 1, 11)]
    restored.feed(("y", 2, 11))
    assert restored.advance(14) == [("x", 4, 4, 14)]
    assert restored.advance() == []


def test_runs_continue_after_they_were_written_and_read(tmp_path: Path) -> None:
    match = (
        "pattern: a (b | c)+ -> d, define: {a: v = 1, b: v > a.v, c: v = 0, d: v = sum(b.v)}, "
        "emit: {n: count(b), m: count(c), s: sum(b.v)}"
    )
    whole, cut = Trial(tmp_path, match), Trial(tmp_path, match)
    rows = [("x", v, at) for at, v in enumerate([1, 2, 0, 3, 1, 7, 5, 5])]
    expected, found = list[object](), list[object]()
    for row in rows:
        whole.feed(row)
        expected += whole.advance(row[2] + 1)
        cut.feed(row)
        found += cut.advance(row[2] + 1)
        cut.operator.flush_to_state()
        owner = replace(ALL, restored_states=(cut.state.freeze(),))
        cut = Trial(tmp_path, match, MemoryBackend().open_state(owner))
    assert found == expected == [("x", 0, 6, 2, 1, 5, 6)]
