"""The state backend in memory: tables and runs of columns.

Tests: tests/state/memory, by a model in tests/support/state/model.py.
"""
