"""Every row exactly once, whatever crashes and fails: each state that the protocol can be in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pytest

from tests.support.kafka.protocol_model import RULES, Steps, World
from tests.support.kafka.transaction_model import Broker, Lost

FORGETFUL = {"mark every partition", "ids of its own for each attempt"}
"""Rules that are kept for brokers that forget."""


class Violation(Exception):
    """A violated invariant."""


def explored(steps: Steps) -> Iterator[World]:
    """Every world there can be, nearest first, once it has been looked at."""
    first = World(Broker(forgetful=steps.forgetful))
    seen, left = {first}, deque([first])
    while left:
        world = left.popleft()
        look(world, steps)
        yield world
        try:
            following = list(steps.after(world))
        except Lost as error:
            raise Violation(f"{error} is lost") from error
        if not following and (world.process is None or world.process.phase != "done"):
            raise Violation("nothing can come next")
        new = [each for each in dict.fromkeys(following) if each not in seen]
        seen.update(new)
        left.extend(new)


def look(world: World, steps: Steps) -> None:
    """Check that no row is visible twice, none is missing at the end, and no reader is blocked."""
    visible, process, record = world.broker.visible, world.process, world.record
    if len(set(visible)) < len(visible):
        raise Violation(f"seen twice: {visible}")
    if process is None:
        return
    if process.phase == "run" and steps.marks and world.broker.hanging:
        raise Violation(f"{world.broker.hanging} hangs")
    if process.phase == "done" and (visible != steps.all or world.broker.open):
        raise Violation(f"at the end {visible} is seen, and {world.broker.open} open")
    if process.phase == "run" and record is not None:
        mine = {id for id in record.iterate_ids()}
        if not mine.issuperset(world.broker.open):
            raise Violation(f"{world.broker.open} is open, and on no record")


@pytest.mark.parametrize(
    "steps",
    [
        Steps((3,), (1,), crashes=1, failures=1),
        Steps((2,), (1,), crashes=2, failures=1),
        Steps((1, 1), (1, 2, 1), crashes=2, failures=0),
        Steps((1, 1), (2, 1), crashes=1, failures=1),
        Steps((2,), (1,), crashes=2, failures=1, forgetful=True),
        Steps((2,), (1,), crashes=2, failures=1, forgetful=True, marks=False),
    ],
    ids=str,
)
def test_every_row_is_seen_exactly_once(steps: Steps) -> None:
    worlds = list(explored(steps))
    ends = [world for world in worlds if world.process and world.process.phase == "done"]
    assert {world.crashes for world in ends} == set(range(steps.crashes + 1))


def test_any_number_of_checkpoints_may_fail() -> None:
    worlds = list(explored(Steps((3,), (1,), crashes=0, failures=3)))
    assert max(world.record.slots for world in worlds if world.record) == 3


@pytest.mark.parametrize("rule", RULES)
def test_without_any_one_rule_a_row_is_lost_doubled_or_held_up(rule: str) -> None:
    marks = rule != "ids of its own for each attempt"
    steps = Steps(
        (2, 1), (2, 1, 2), 2, 1, broken=frozenset([rule]), forgetful=rule in FORGETFUL, marks=marks
    )
    with pytest.raises(Violation):
        for _ in explored(steps):
            pass
