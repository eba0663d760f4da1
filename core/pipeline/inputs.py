"""The inputs of a step: the streams of `from`, or the two inputs of a clause in its place."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.pipeline.model import StepKeys
from headrace.core.pipeline.rule import RuleViolation
from headrace.core.pipeline.text import Text

TWO_INPUT_CLAUSES = ("join", "connect")
"""Clauses that name two inputs and replace `from`."""


def find_two_input_clause(data: Mapping[Text, object]) -> Text | None:
    """Return the key of the clause that replaces `from`, if there is one."""
    return next((key for key in data if key in TWO_INPUT_CLAUSES), None)


def list_input_streams(step: StepKeys) -> tuple[Text, ...]:
    """Return the streams that a step reads."""
    if step.join is not None:
        return step.join.left.from_, step.join.right.from_
    if step.connect is not None:
        return step.connect.left, step.connect.right
    if step.broadcast is not None:
        return (*step.from_[:1], step.broadcast.rules.from_)
    return step.from_


def has_two_inputs(step: StepKeys) -> bool:
    """Whether the class of the step, if it has one, receives rows of two inputs."""
    return step.connect is not None or step.broadcast is not None


def get_input_aliases(step: StepKeys) -> tuple[Text | None, Text | None]:
    """Return the other names that a step gives to its two inputs; None where it gives none."""
    if step.join is not None:
        return step.join.left.as_, step.join.right.as_
    return None, step.broadcast.rules.as_ if step.broadcast else None


def make_from_conflict(clause: str) -> RuleViolation:
    """Return the violation of a step that names its inputs twice."""
    message = f'"from" does not go with "{clause}"'
    return RuleViolation(
        ("from",), message, f"the step reads the inputs of {clause}: left and right"
    )
