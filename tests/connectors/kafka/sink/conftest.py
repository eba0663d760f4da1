"""Shared fixtures of the sink's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.fixture
def job(fresh: Callable[..., str]) -> str:
    """A unique job id."""
    return fresh().replace("-", "").ljust(32, "0")
