"""What a step reads: what stands under `from`, or the two inputs of a clause in its place."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.rule import Rule
from headrace.core.pipeline.text import Text

TWO_SIDED = ("join", "connect")
"""Clauses that name two inputs, in the place of `from`."""


def two_sided(data: Mapping[Text, object]) -> Text | None:
    """The clause that stands in the place of `from`, where it stands."""
    return next((key for key in data if key in TWO_SIDED), None)


def read_by(step: StepKeys) -> tuple[Text, ...]:
    """The streams that a step reads."""
    if step.join is not None:
        return step.join.left.from_, step.join.right.from_
    if step.connect is not None:
        return step.connect.left, step.connect.right
    if step.broadcast is not None:
        return (*step.from_[:1], step.broadcast.rules.from_)
    return step.from_


def has_two_inputs(step: StepKeys) -> bool:
    """Whether its class, if it has one, is handed rows of two inputs."""
    return step.connect is not None or step.broadcast is not None


def called(step: StepKeys) -> tuple[Text | None, Text | None]:
    """How a step calls its two inputs, where it gives them another name."""
    if step.join is not None:
        return step.join.left.as_, step.join.right.as_
    return None, step.broadcast.rules.as_ if step.broadcast else None


def beside_from(clause: str) -> Rule:
    """A step that says twice what it reads."""
    message = f'"from" stands beside "{clause}"'
    return Rule(("from",), message, f"it reads what {clause} names: left and right")
