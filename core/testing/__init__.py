"""What users test their classes with, without a pipeline."""

from headrace.core.testing.trial import Trial

__all__ = ["Trial"]
