"""The backend `rocksdb`: state in memory as far as it fits, and on disk beyond.

Tests: tests/state/rocks, by a model in tests/support/state/model.py.
"""
