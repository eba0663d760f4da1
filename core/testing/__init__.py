"""Tools to test user-defined classes without a pipeline.

It is also the former path of `Trial`, which is now imported from `headrace`.

Tests: tests/core/testing.
"""

from typing import TYPE_CHECKING

from headrace.core.errors.old_imports import import_moved_name

if TYPE_CHECKING:
    from headrace.core.testing.trial import Trial

__all__ = ["Trial"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return import_moved_name(__name__, name)
