"""Values that are computed of a plan once: a plan never changes, and one process uses it often.

Tests: tests/core/plan/test_layout.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from headrace.core.plan.nodes import Plan

T = TypeVar("T")


def cache_by_plan(compute: Callable[[Plan], T]) -> Callable[[Plan], T]:
    """Store what a function computes in the plan; nobody changes the value."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def get(plan: Plan) -> T:
        values: dict[str, Any] = plan.__dict__
        if name not in values:
            values[name] = compute(plan)
        found: T = values[name]
        return found

    return get
