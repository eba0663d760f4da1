"""Data types, rows in frames, key groups, and the values that travel with batches.

Tests: tests/core/types.
"""
