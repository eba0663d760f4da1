"""The operators of `process`: a user class over the rows, states and timers of keys.

Tests: tests/core/operators/process and tests/core/testing.
"""
