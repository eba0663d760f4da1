"""The operator of `match`: patterns over the rows of each key.

Tests: tests/core/operators/matches.
"""
