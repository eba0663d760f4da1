"""Operators over a changelog stream, which store its current rows.

Tests: tests/core/operators/changelog.
"""
