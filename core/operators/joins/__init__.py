"""Joins: rows of two inputs matched by their keys and times.

Tests: tests/core/operators/joins; broadcasts in tests/core/operators/joins/test_random_joins.py.
"""
