"""Violations of the rules between the clauses of a step."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.problems import Severity


@dataclass(frozen=True, slots=True)
class RuleViolation:
    """A violated rule: the key of the step, or with `of_value` its value; a message and a hint."""

    at: tuple[str, ...]
    message: str
    hint: str = ""
    severity: Severity = "error"
    is_about_value: bool = False
