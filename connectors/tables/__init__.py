"""Lookup tables: a file, a database, an HTTP server.

Tests: tests/connectors/tables and tests/core/operators/lookup.
"""
