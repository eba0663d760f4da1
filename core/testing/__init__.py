"""Tools to test user-defined classes without a pipeline.

Tests: tests/core/testing.
"""

from headrace.core.testing.trial import Trial

__all__ = ["Trial"]
