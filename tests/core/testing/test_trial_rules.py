"""A class with a broadcast, over literal rows and rules."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from headrace import Out, Process, Row, Trial, list_of, map_of, shared, timer, value
from headrace.core.api.user_code import UserCodeError
from headrace.core.operators.process.process_operator import ProcessOperator
from headrace.core.operators.process.state_values import copy_value
from tests.support.trials import ROWS, Payment, at

RULES = {"k": "string", "most": "bigint", "at": "timestamp"}


class Rule(Row):
    k: str
    most: int | None


class Limits(Process):
    """Payments that exceed the rules, and those without a rule."""

    limits = shared(map_of("string", "bigint"))
    order = shared(list_of("string"))
    rules = shared(value("int", default=0))
    recent = shared(value("string", ttl="10s"))
    matched = value("bigint", default=0)
    later = timer()

    def on_rule(self, rule: Rule, state: Limits) -> None:
        state.rules += 1
        state.order.append(rule.k)
        state.recent = rule.k
        if rule.most is None:
            del state.limits[rule.k]
        else:
            state.limits[rule.k] = rule.most

    def on_row(self, row: Payment, state: Limits, out: Out) -> None:
        if row.v > state.limits.get(row.k, 10**9):
            state.matched += 1
            out(row.k, state.matched)
        state.later = at(60)

    def on_timer(self, at: Any, state: Limits, out: Out) -> None:
        out(self.key, -len(state.order))


def trial_of(kind: type[Process], **more: Any) -> Trial:
    returns = {"k": "string", "n": "bigint"}
    given = {"event_time": "at", "rules": RULES} | more
    return Trial(kind, key="k", rows=ROWS, returns=returns, **given)


def test_rows_go_by_the_rules_of_their_time_however_they_come() -> None:
    trial = trial_of(Limits)
    trial.row(k="a", v=5, at=at(3))
    trial.row(k="a", v=5, at=at(1))
    trial.rule(k="a", most=9, at=at(4))
    trial.rule(k="a", most=4, at=at(2))
    trial.row(k="a", v=5, at=at(5))
    trial.watermark(at(6))
    assert trial.out == [{"k": "a", "n": 1}]
    assert trial.shared.limits == {"a": 9}
    assert trial.state("a").matched == 1
    trial.rule(k="b", most=1, at=at(7))
    trial.end()
    assert trial.out[1:] == [{"k": "a", "n": -3}]


def test_a_rule_comes_before_rows_of_its_time_if_it_was_there_before() -> None:
    trial = trial_of(Limits)
    trial.rule(k="a", most=1, at=at(1))
    trial.row(k="a", v=2, at=at(1))
    trial.row(k="b", v=2, at=at(1))
    trial.rule(k="b", most=1, at=at(1))
    trial.watermark(at(2))
    assert trial.out == [{"k": "a", "n": 1}]


def test_a_rule_that_comes_late_is_no_row_to_be_left_out() -> None:
    trial = trial_of(Limits)
    trial.watermark(at(5))
    trial.rule(k="a", most=1, at=at(1))
    trial.row(k="a", v=2, at=at(6))
    trial.row(k="a", v=2, at=at(2))
    trial.watermark(at(7))
    assert trial.out == [{"k": "a", "n": 1}]
    assert len(trial.late) == 1


def test_by_arrival_what_has_come_counts() -> None:
    trial = trial_of(Limits, order="arrival")
    trial.row(k="a", v=5, at=at(3))
    trial.rule(k="a", most=4, at=at(1))
    trial.row(k="a", v=5, at=at(2))
    assert trial.out == [{"k": "a", "n": 1}]


def test_by_arrival_rules_need_no_time() -> None:
    class Timed(Limits):
        def on_rule(self, rule: Rule, state: Limits) -> None:
            state.order.append(str(self.event_time))

    trial = trial_of(Limits, order="arrival", rules={"k": "string", "most": "bigint"})
    trial.rule(k="a", most=4)
    trial.row(k="a", v=5, at=at(2))
    assert trial.out == [{"k": "a", "n": 1}]
    trial = trial_of(Timed, order="arrival", rules={"k": "string", "most": "bigint"})
    with pytest.raises(UserCodeError, match="rows have no event time"):
        trial.rule(k="a", most=4)


def test_shared_values_expire() -> None:
    class Recent(Limits):
        def on_row(self, row: Payment, state: Limits, out: Out) -> None:
            out(state.recent, row.v)

    trial = trial_of(Recent)
    trial.rule(k="a", most=4, at=at(1))
    for second in (11, 12):
        trial.row(k="b", v=second, at=at(second))
    trial.end()
    assert trial.out[:2] == [{"k": "a", "n": 11}, {"k": None, "n": 12}]


CHANGES = {
    "state.limits['a'] = 1": "'mappingproxy' object does not support item assignment",
    "state.limits.clear()": "'mappingproxy' object has no attribute 'clear'",
    "state.order.append('b')": "'tuple' object has no attribute 'append'",
    "state.rules = 3": 'state "rules" is shared by all keys',
    "state.limits |= {'a': 1}": "'|=' is not supported by mappingproxy",
    "state.order += ['b']": "can only concatenate tuple",
    "state.limit": 'the class declares no state "limit": did you mean "limits"?',
}


def wrong(method: str, body: str) -> type:
    """Build the class with another method."""
    scope: dict[str, type] = {"Limits": Limits}
    text = f"class Wrong(Limits):\n    __module__ = '{__name__}'\n    def {method}: {body}\n"
    exec(text, scope)
    return scope["Wrong"]


@pytest.mark.parametrize("body", CHANGES)
def test_only_on_rule_writes_what_is_shared(body: str) -> None:
    trial = trial_of(wrong("on_row(self, row, state, out)", body))
    trial.row(k="a", v=1, at=at(1))
    with pytest.raises(UserCodeError, match=re.escape(CHANGES[body])) as caught:
        trial.end()
    if "declares" not in CHANGES[body]:
        assert "on_rule" in f"{caught.value.message} {caught.value.hint}"


def test_nested_values_that_are_shared_are_copies() -> None:
    class Nested(Process):
        all = shared(map_of("string", "array<bigint>"))

        def on_rule(self, rule: Rule, state: Nested) -> None:
            state.all[rule.k] = [rule.most or 0]

        def on_row(self, row: Payment, state: Nested, out: Out) -> None:
            state.all["a"].append(row.v)
            out(row.k, sum(state.all["a"]))

    trial = trial_of(Nested)
    trial.rule(k="a", most=1, at=at(1))
    trial.row(k="b", v=2, at=at(2))
    trial.row(k="c", v=4, at=at(2))
    trial.end()
    assert [each["n"] for each in trial.out] == [1, 1]


def test_a_row_copies_of_what_is_shared_only_what_it_looks_at() -> None:
    class Looks(Process):
        all = shared(map_of("string", "struct<most: bigint>"))

        def on_rule(self, rule: Rule, state: Looks) -> None:
            state.all[rule.k] = {"most": rule.most}

        def on_row(self, row: Payment, state: Any, out: Out) -> None:
            copies = 0

            def count(frame: Any, event: str, _: object) -> None:
                nonlocal copies
                copies += event == "call" and frame.f_code is copy_value.__code__

            sys.setprofile(count)
            found = state.all["7"]
            sys.setprofile(None)
            out(f"{len(state.all)} {found} {'x' in state.all}", copies)
            assert state.all == {**state.all} == state.all | {} == state.all.copy()

    trial = trial_of(Looks)
    for each in range(9):
        trial.rule(k=str(each), most=each, at=at(1))
    trial.row(k="b", v=2, at=at(2))
    trial.end()
    assert trial.out == [{"k": "9 {'most': 7} False", "n": 2}]  # the struct, and its contents


def test_what_is_shared_is_filed_again_only_when_rules_came() -> None:
    trial = trial_of(Limits)

    def filed() -> Any:
        operator = trial._operator
        assert isinstance(operator, ProcessOperator)
        operator.flush_to_state()
        shared = operator._parts.shared_state
        assert shared is not None
        return shared._entries["limits"].rows

    trial.rule(k="a", most=9, at=at(1))
    trial.watermark(at(2))
    first = filed()
    trial.row(k="a", v=10, at=at(3))
    trial.watermark(at(4))
    assert filed() is first
    trial.rule(k="a", most=8, at=at(5))
    trial.watermark(at(6))
    assert [each["value"] for each in filed()["value"][0]] == [8]


def test_a_failing_rule_is_reported_as_a_rule_without_a_key() -> None:
    trial = trial_of(Limits)
    trial.rule(k="a", most=None, at=at(1))
    with pytest.raises(UserCodeError, match=r"KeyError: 'a' .*in the rule \{'k': 'a'"):
        trial.end()

    class Asks(Limits):
        def on_rule(self, rule: Rule, state: Limits) -> None:
            state.order.append(self.key)

    trial = trial_of(Asks)
    trial.rule(k="a", most=None, at=at(1))
    with pytest.raises(UserCodeError, match="a rule has no key: it applies to all keys"):
        trial.end()


RULE_FAILS = {
    "state.matched += 1": 'state "matched" belongs to a key, and a rule has none',
    "state.later = self.event_time": 'state "later" belongs to a key, and a rule has none',
    "return 1": "on_rule returned a int",
}


@pytest.mark.parametrize("body", RULE_FAILS)
def test_a_rule_does_nothing_to_a_key(body: str) -> None:
    trial = trial_of(wrong("on_rule(self, rule, state)", body))
    trial.rule(k="a", most=1, at=at(1))
    with pytest.raises(UserCodeError, match=RULE_FAILS[body]) as caught:
        trial.end()
    assert caught.value.hint.startswith("apply a rule to a key when its next row comes")


def test_a_trial_says_what_it_has() -> None:
    with pytest.raises(TypeError, match="give columns of rules"):
        Trial(Limits, key="k", rows=ROWS, returns={"k": "string"}).rule(k="a")
    with pytest.raises(TypeError, match="rules write: give columns of rules"):
        Trial(Limits, key="k", rows=ROWS, returns={"k": "string"}, event_time="at")
    with pytest.raises(ValueError, match='event_time: there is no column "at"'):
        trial_of(Limits, rules={"k": "string"})
    with pytest.raises(TypeError, match="give left and right columns for two"):
        trial_of(Limits).right(k="a")
