"""Sources of a job: reading splits, event time, watermarks and idleness.

Tests: tests/core/sources.
"""
