"""Storage of everything that outlives a job's process: home, lock and checkpoints.

Tests: tests/state/storage.
"""
