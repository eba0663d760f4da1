"""Queries as steps: each block of a query becomes a step with clauses, as YAML would write it.

Tests: tests/core/plan/sql.
"""
