"""A job: its attempts, recovery, requests, statistics and launch.

Tests: tests/core/job and tests/recovery.
"""
