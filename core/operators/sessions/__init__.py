"""Session windows: fragments of sessions, open and emitted sessions, and their operator.

Tests: tests/core/operators/sessions.
"""
