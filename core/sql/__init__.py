"""Queries as text: their syntax tree and their parser, by the parser of expressions.

Tests: tests/core/sql, tests/core/queries.
"""
