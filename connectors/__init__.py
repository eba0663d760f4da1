"""Connectors: sources, sinks and lookup tables. They depend on `headrace.core` alone.

Tests: tests/connectors; Nexmark in tests/nexmark.
"""
