"""What tests of the sink have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def job(fresh: Callable[..., str]) -> str:
    """The id of a job that nobody else has."""
    return fresh().replace("-", "").ljust(32, "0")
