"""Tools to test user-defined classes without a pipeline."""

from headrace.core.testing.trial import Trial

__all__ = ["Trial"]
