"""A user's class is not affected by a snapshot and a restore of its operator."""

from __future__ import annotations

import random

import pytest

from headrace.core.plan.nodes import Plan
from tests.core.operators.test_snapshots import disturbed
from tests.support.paths import PROCESS_CLASSES
from tests.support.reference import random_pipelines
from tests.support.runtime.operator_subtasks import END, Subtasks, plan_of, planned, script

RETURNS = "returns: {k: bigint, n: bigint, total: bigint}"


def step(name: str, *more: str, key: str = "k", on_error: str = "") -> str:
    """Return the clauses of a step with one of the classes."""
    clauses = ", ".join([f"python: {PROCESS_CLASSES}:{name}", RETURNS, *more])
    return f"key: {key}, process: {{{clauses}}}{on_error}"


ODD = "outputs: {odd: {v: bigint}}"
STEPS = [
    step("Totals").replace("n: bigint", "n: int"),
    step("Totals", "late_to: late").replace("n: bigint", "n: int"),
    step("Totals", "order: arrival").replace("n: bigint", "n: int"),
    step("Sessions", "late_to: late"),
    step("Sessions", "order: arrival"),
    step("Two"),
    step("Two", "order: arrival"),
    step("Fading"),
    step("Fading", "order: arrival"),
    step("Defaulted"),
    step("Waking"),
    step("Waking", "order: arrival"),
    step("Picky", on_error=", on_error: skip"),
    step("ManyTotals").replace("n: bigint", "n: int"),
    step("ManyTotals", "order: arrival").replace("n: bigint", "n: int"),
]


CONNECT, RULES = "connect: {left: a, right: b}, ", "from: a, broadcast: {rules: b}, "
TWO = [
    CONNECT + step("Matched"),
    CONNECT + step("Matched", "order: arrival"),
    RULES + step("Limited"),
    RULES + step("Limited", "order: arrival"),
    RULES + step("Limited", on_error=", on_error: skip"),
]


def plan_of_two(text: str) -> Plan:
    """Build the plan of a step of two inputs, each with the rows of the reference's pipelines."""
    source = f"{{memory: {{data: in}}, schema: {random_pipelines.SCHEMA}, event_time: at}}"
    return planned(
        f"sources:\n  a: {source}\n  b: {source}\nsteps:\n  step: {{{text}}}\n"
        "sinks:\n  out: {from: step, memory: {data: out}}\n"
    )


@pytest.mark.parametrize("text", TWO)
@pytest.mark.parametrize("seed", range(3))
def test_a_class_of_two_inputs_survives_restores(text: str, seed: int) -> None:
    disturbed(
        plan_of_two(text), random.Random(f"{text.replace(str(PROCESS_CLASSES), '')}{seed}"), 20
    )


@pytest.mark.parametrize("text", STEPS)
@pytest.mark.parametrize("seed", range(3))
def test_a_class_survives_restores(text: str, seed: int) -> None:
    disturbed(plan_of(text), random.Random(f"{text.replace(str(PROCESS_CLASSES), '')}{seed}"), 20)


@pytest.mark.parametrize("text", [*STEPS[::3], *TWO])
def test_subtasks_at_different_times_can_be_merged(text: str) -> None:
    chance = random.Random(text.replace(str(PROCESS_CLASSES), ""))
    plan = plan_of_two(text) if text in TWO else plan_of(text)
    apart, joined = Subtasks(plan, 2), Subtasks(plan, 2)
    for event in script(chance, 20, subtasks=2, sides=apart.sides):
        assert apart.said(event) == joined.said(event), event
    joined.begin_anew(chance.choice([1, 3]))
    for event in [*script(chance, 10, sides=apart.sides), *END]:
        assert apart.said(event) == joined.said(event), event
