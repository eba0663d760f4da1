"""Rules as the watermark passes: literal rows and times, in seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.api.state import StepState
from headrace.core.errors.value_errors import ExpressionFailure
from headrace.core.operators.matches.rule_operator import RuleMatchOperator
from headrace.core.plan import nodes
from headrace.core.plan.nodes.matching import RuleMatch
from headrace.core.plan.rule_matches import MAX_RULES
from headrace.core.types.elements import EVENT_TIME
from headrace.state.memory.backend import MemoryBackend
from tests.support.plans import plan_of
from tests.support.runtime.changelogs import ALL, place, timed
from tests.support.runtime.match_trials import MatchTrial

PIPELINE = """name: test
sources:
  rows: {files: {path: in}, schema: {k: string, v: int, at: timestamp}, event_time: at}
  rules:
    files: {path: rules}
    schema: {rule: string, pattern: string, define: string, within: string, removed: boolean,
             at: timestamp}
    event_time: at
steps:
  s: {from: rows, key: k, match: {rules: rules, incomplete_to: partial, max_runs: 2}}
sinks:
  out: {from: s, console: {}}
  p: {from: partial, console: {}}
"""
PAIR = {"pattern": "a -> b", "define": '{"a": "v = 1", "b": "v = 2"}', "within": "20s"}


class Trial(MatchTrial[RuleMatchOperator]):
    """An operator with the rows that it has emitted."""

    def __init__(
        self, folder: Path, state: StepState | None = None, *, is_careful: bool = True
    ) -> None:
        part = plan_of(folder, PIPELINE).part("s")
        assert isinstance(part, nodes.Step) and isinstance(part.operations[0], nodes.Join)
        join = part.operations[0]
        assert isinstance(join.matching, RuleMatch)
        super().__init__()
        self.state = state or MemoryBackend().open_state(ALL)
        context = replace(place(self.state), read_streams=frozenset({"partial"}))
        self.operator = RuleMatchOperator(
            join, join.matching, context, "s", self.fail if is_careful else None
        )

    def feed(self, *rows: tuple[str, int, int]) -> None:
        """Pass rows of key, value and second."""
        assert not self.process(*rows)

    def rule(self, at_s: int, name: str = "r", **values: Any) -> None:
        """Pass the row of a rule."""
        texts = {"rule": name, "pattern": None, "define": None, "within": None, **values}
        removed = pl.Series("removed", [texts.pop("removed", None)], pl.Boolean)
        frame = pl.DataFrame({n: pl.Series(n, [t], pl.String) for n, t in texts.items()})
        frame = timed(frame.with_columns(removed), [at_s], ordered=True)
        list(self.operator.process_right(frame.with_columns(pl.col(EVENT_TIME).alias("at"))))


def test_a_rule_holds_for_rows_at_its_time_and_later(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.feed(("x", 1, 1), ("y", 1, 5), ("x", 2, 6), ("y", 2, 7))
    trial.rule(5, **PAIR)
    assert trial.advance(5) == []
    assert trial.advance() == [("y", "r", 5, 7, 7)]


def test_the_end_of_a_rule_ends_its_runs(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.feed(("x", 1, 1), ("y", 1, 10), ("z", 1, 2), ("z", 2, 21), ("x", 2, 22))
    trial.rule(21, removed=True)
    # The time of x is over when the rule ends; that of y is not; z comes with the end, too late.
    assert trial.advance() == [("partial", "x", "r", 1, "a", 1, 21)]


def test_a_rule_is_replaced_by_one_without_its_runs(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.feed(("x", 1, 1), ("x", 2, 6), ("x", 3, 8))
    trial.rule(5, **{**PAIR, "define": '{"a": "v = 2", "b": "v = 3"}'})
    assert trial.advance() == [("x", "r", 6, 8, 8)]


def test_the_same_rule_again_changes_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.feed(("x", 1, 1), ("x", 2, 6))
    trial.rule(5, **PAIR)
    assert trial.advance() == [("x", "r", 1, 6, 6)]
    other = Trial(tmp_path)
    texts: dict[str, Any] = {**PAIR}
    other.rule(0, **texts | {"within": None})
    other.feed(("x", 1, 1), ("x", 2, 6))
    other.rule(5, **texts | {"within": ""})
    assert other.advance() == [("x", "r", 1, 6, 6)] and not other.failed


def test_rules_do_not_share_their_runs(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, "one", **PAIR)
    trial.rule(0, "two", **PAIR)
    trial.feed(("x", 1, 1))
    assert trial.advance(4) == []
    trial.operator.flush_to_state()
    trial.rule(5, "one", removed=True)
    trial.feed(("x", 2, 6))
    assert trial.advance() == [("x", "two", 1, 6, 6)]


@pytest.mark.parametrize("is_written", [False, True])
def test_no_runs_of_a_removed_rule_are_left(is_written: bool, tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.feed(("x", 1, 1), ("y", 1, 2))
    trial.advance(3)
    if is_written:
        trial.operator.flush_to_state()
    trial.rule(4, removed=True)
    trial.rule(5, **PAIR)
    trial.feed(("x", 2, 6), ("y", 1, 6), ("y", 2, 7))
    assert trial.advance(8) == [("y", "r", 6, 7, 7)]
    trial.operator.flush_to_state()
    table = trial.state.freeze().read_table("keys", range(ALL.key_groups))
    assert table is None or not table.height


def test_no_run_that_has_ended_is_left_of_a_removed_rule(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.feed(("x", 1, 1))
    trial.advance(3)
    trial.operator.flush_to_state()
    assert trial.advance(21) == [("partial", "x", "r", 1, "a", 1, 21)]
    trial.rule(22, removed=True)
    trial.advance(23)
    trial.operator.flush_to_state()
    table = trial.state.freeze().read_table("keys", range(ALL.key_groups))
    assert table is None or not table.height


def test_rules_and_runs_continue_after_they_were_written_and_read(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.rule(9, removed=True)
    trial.feed(("x", 1, 1), ("y", 1, 2), ("y", 2, 8), ("x", 2, 10))
    trial.advance(4)
    trial.operator.flush_to_state()
    owner = replace(ALL, restored_states=(trial.state.freeze(),))
    again = Trial(tmp_path, MemoryBackend().open_state(owner))
    assert again.advance() == [("y", "r", 2, 8, 8)]


def test_a_row_that_is_no_rule_changes_nothing(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR)
    trial.rule(2, pattern="a ->")
    trial.feed(("x", 1, 1), ("x", 2, 6))
    assert trial.advance() == [("x", "r", 1, 6, 6)]
    (failed,) = trial.failed
    assert failed.error.startswith('pattern:1:4: rule "r": pattern: wanted a variable')
    assert failed.row["pattern"] == "a ->" and failed.row["removed"] is None
    alone = Trial(tmp_path, is_careful=False)
    alone.rule(2, pattern="a ->")
    with pytest.raises(ExpressionFailure, match=r'pattern:1:4: rule "r": .*, in the row'):
        alone.advance()


def test_there_are_no_more_rules_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_RULES == 1000
    monkeypatch.setattr(f"{RuleMatchOperator.__module__}.MAX_RULES", 3)
    trial = Trial(tmp_path)
    for at in range(4):
        trial.rule(at, f"r{at}", pattern="a")
    trial.rule(4, "r0", removed=True)
    trial.rule(5, "last", pattern="a")
    trial.feed(("x", 1, 6))
    assert {row[1] for row in trial.advance()} == {"last", "r1", "r2"}
    assert [each.error for each in trial.failed] == ['rule "r3": there are 3 rules already']


def test_a_row_with_too_many_runs_of_a_rule_fails_for_it(tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.rule(0, **PAIR, after_match=None)
    trial.rule(0, "other", pattern="c", define='{"c": "v = 1"}')
    trial.feed(("x", 1, 1), ("x", 1, 2), ("x", 1, 3))
    assert {row[1] for row in trial.advance(4)} == {"other"}
    message = 'rule "r": more than 2 runs of one key (max_runs)'
    assert [each.error for each in trial.failed] == [message]
