"""A rule that the clauses of a step break."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.problems import Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """At which key of the step it is broken, or at that key's value; and what to do."""

    at: tuple[str, ...]
    message: str
    hint: str = ""
    severity: Severity = "error"
    of_value: bool = False
