"""Storage of a job's checkpoints in a bucket.

Tests: tests/state/storage/remote.
"""
