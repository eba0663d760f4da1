"""Checkpoints of a job: manifests, storage, counters, compatibility with a changed pipeline.

Tests: tests/core/checkpoint, tests/recovery/test_damage.py, tests/recovery/test_stored_documents.py
and tests/state/storage.
"""
