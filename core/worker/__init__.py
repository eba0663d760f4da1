"""The worker: subtasks built from the plan, run, and measured.

Tests: tests/core/worker, tests/core/job and tests/recovery.
"""
