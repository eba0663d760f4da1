"""Keyed state and snapshots: backends, savepoints and storage. Imports only `headrace.core`.

Tests: tests/state.
"""
