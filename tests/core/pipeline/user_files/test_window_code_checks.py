"""Problems of the classes that windows and aggregates name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.plans import over_orders, said

FILE = """\
from elsewhere import Base
from headrace import Process
from headrace import Aggregate, Trigger, timer, value


class Mean(Aggregate):
    def partial(self, prices): return 1
    def merge(self, partials): return 1
    def finish(self, partial): return 1


class Either(Mean):
    def partial(self, prices, names=None): return 1


class Any(Aggregate):
    def partial(self, *columns): return 1
    def merge(self, partials): return 1
    def finish(self, partial): return 1


class Retracting(Mean):
    def partial(self, prices): return 1
    def merge(self, partials): return 1
    def finish(self, partial): return 1
    def retract(self, removed): return 1


class Far(Base): ...


class Handled(Process):
    def on_row(self, row, state, out): ...


class Big(Trigger):
    def on_row(self, row, state): return True


class Old(Trigger):
    def on_rows(self, rows, state, window): return True


class Silent(Trigger):
    wake = timer()
    def on_row(self, row, state, window): return True


class Timed(Trigger):
    state = {"n": "bigint", "both": "bigint"}
    both = timer()
    now = timer()
    odd = timer(time="noon")
    last = value("bigint")
    def on_row(self, row, state, window): return True
    def on_timer(self, at, state): return True


class Plain:
    wake = timer(time="processing")
    def on_row(self, row, state, window): return True
    def on_timer(self, at, state, window): return True


class Woken(Trigger):
    wake = timer()
    def on_row(self, row, state, window): return True
    def on_timer(self, at, state, window): return True


class Merged(Trigger):
    state = {"n": "bigint"}
    def on_row(self, row, state, window): return True
    def merge(self, states): return states[0]


class Two(Trigger):
    state = {"n": "bigint"}
    def on_row(self, row, state, window): return True
    def merge(self, first, second): return first


class Both(Trigger):
    def on_row(self, row, state, window): return True
    def on_rows(self, rows, state, window): return True


class Older(Base):
    def on_rows(self, rows, state, window): return True
"""


def problems_of(folder: Path, step: str) -> list[str]:
    (folder / "w.py").write_text(FILE)
    found = said(folder, over_orders(f"key: id, {step}"))
    return [each.partition(": ")[2] for each in found if "w.py" in each or ".python" in each]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "aggregate: {m: {python: w.py:Handled, of: price, returns: double}}",
            'step "s": aggregate.m.python: class "Handled" has no partial and no merge and no'
            " finish [it needs partial, merge, finish]",
        ),
        (
            "aggregate: {m: {python: w.py:Mean, of: [price, upper(name)], returns: double}}",
            'step "s": aggregate.m.python: class "Mean": partial takes 1 argument besides self, but'
            " is called with 2 [as in def partial(self, price, of_1): ...]",
        ),
        (
            "aggregate: {m: {python: w.py:Retracting, of: price, returns: double}}",
            'step "s": aggregate.m.python: class "Retracting": retract takes 1 argument besides'
            " self, but is called with 2 [as in def retract(self, partial, removed): ...]",
        ),
        (
            "window: {tumble: 1m, trigger: {python: w.py:Big}}, aggregate: {n: count(*)}",
            'step "s": window.trigger.python: class "Big": on_row takes 2 arguments besides self,'
            " but is called with 3 [as in def on_row(self, row, state, window): ...]",
        ),
        (
            "window: {tumble: 1m, trigger: {python: w.py:Old}}, aggregate: {n: count(*)}",
            'step "s": window.trigger.python: class "Old" has on_rows, which was renamed to on_row'
            " and is called for each row [write def on_row(self, row, state, window): row is a dict"
            " of the columns, and the window fires with this row if it returns True]",
        ),
        (
            "window: global, apply: {python: w.py:Mean, returns: {n: int}}",
            'step "s": apply.python: class "Mean" has no __call__'
            " [name a function, as in def name(rows): ..., or give the class a __call__]",
        ),
    ],
)
def test_what_it_has_not_or_takes_in_another_way(step: str, message: str, tmp_path: Path) -> None:
    assert problems_of(tmp_path, step) == [message]


@pytest.mark.parametrize("name", ["Either", "Any", "Far"])
def test_what_may_be_elsewhere_or_takes_more_is_left_to_the_run(name: str, tmp_path: Path) -> None:
    one = f"{{python: w.py:{name}, of: [price, name], returns: double}}"
    assert problems_of(tmp_path, f"aggregate: {{m: {one}}}") == []


@pytest.mark.parametrize("name", ["Both", "Older"])
def test_an_old_method_besides_the_new_one_is_left_alone(name: str, tmp_path: Path) -> None:
    trigger = f"{{python: w.py:{name}}}"
    step = f"window: {{tumble: 1m, trigger: {trigger}}}, aggregate: {{n: count(*)}}"
    assert problems_of(tmp_path, step) == []


@pytest.mark.parametrize(
    ("name", "window", "messages"),
    [
        (
            "Silent",
            "tumble: 1m",
            ['class "Silent" has no on_timer [it needs on_row, on_timer]'],
        ),
        (
            "Timed",
            "tumble: 1m",
            [
                'class "Timed": on_timer takes 2 arguments besides self, but is called with 3'
                " [as in def on_timer(self, at, state, window): ...]",
                'class "Timed": "both" is a timer and a value of state'
                " [give one of them another name]",
                'class "Timed": timer "now": a state cannot have this name'
                " [self.now has another meaning]",
                'class "Timed": timer "odd": time: wanted "event" or "processing", got \'noon\'',
                'class "Timed": "last" is a value, and not a timer'
                ' [a trigger stores values: state = {"n": "bigint"}]',
            ],
        ),
        (
            "Plain",
            "tumble: 1m",
            [
                'class "Plain": only a Trigger has timers'
                " [write class Plain(Trigger), with Trigger from headrace]"
            ],
        ),
        (
            "Woken",
            "tumble: 1m, time: processing",
            [
                'class "Woken": the timer "wake" is by event time, but the windows are by the wall'
                ' clock [write timer(time="processing")]'
            ],
        ),
        ("Woken", "global: true", []),
        (
            "Woken",
            "session: 1m",
            [
                'class "Woken": sessions need merge: when a row joins two, their states become one'
                ' [as in def merge(self, states): return {"wake": ...}]'
            ],
        ),
        ("Merged", "session: 1m", []),
        (
            "Two",
            "session: 1m",
            [
                'class "Two": merge takes 2 arguments besides self, but is called with 1'
                " [as in def merge(self, states): ...]"
            ],
        ),
    ],
)
def test_timers_of_a_trigger(name: str, window: str, messages: list[str], tmp_path: Path) -> None:
    trigger = f"trigger: {{python: w.py:{name}}}"
    found = problems_of(tmp_path, f"window: {{{window}, {trigger}}}, aggregate: {{n: count(*)}}")
    assert found == [f'step "s": window.trigger.python: {message}' for message in messages]
