"""What the state of a step means, as texts that can be compared: by what key it is kept, in which
windows, of what. A checkpoint has them, and state is only restored where they are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.plan.describe_keyed import keyed_lines
from headrace.core.plan.layout import keyed_operation
from headrace.core.plan.nodes import Plan
from headrace.core.plan.states import kept_by

NO_STATE = ("having", "lateness", "late rows", "ttl")
"""How lines begin that say what is put out, or for how long it is kept, and not what it means."""


def fingerprints(plan: Plan) -> dict[str, dict[str, Any]]:
    """By step, for those that keep anything."""
    return {part.name: _of(part, plan) for part in plan if kept_by(part, plan.key_groups)}


def _of(part: Any, plan: Plan) -> dict[str, Any]:
    keyed = keyed_operation(part)
    kept = kept_by(part, plan.key_groups)
    assert keyed is not None and kept is not None
    return {
        "does": [line for line in keyed_lines(keyed) if not line.startswith(NO_STATE)],
        "key": [[column.name, str(column.value.type)] for column in keyed.key],
        "states": {state.name: [list(column) for column in state.columns] for state in kept.states},
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The steps whose state means something else now: step, what it was, what it is."""
    found = []
    for step in [*before, *(step for step in now if step not in before)]:
        if step in before and step in now and before[step] != now[step]:
            found.append((step, _said(before[step]), _said(now[step])))
    return found


def _said(kept: Mapping[str, Any]) -> str:
    key = ", ".join(f"{name} {type}" for name, type in kept["key"])
    return "; ".join([*kept["does"], *([f"keys {key}"] if key else [])])
