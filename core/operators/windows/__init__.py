"""Time windows: how rows are grouped by event time or processing time, and when windows fire.

Tests: tests/core/operators/windows.
"""
