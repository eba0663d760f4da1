"""The decisions of a job, without a clock and without I/O: checkpoints, splits, restarts.

Tests: tests/core/coordination; messages in tests/core/job, split assignment in
tests/core/sources/test_source_time.py.
"""
