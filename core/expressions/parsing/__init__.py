"""The lexer and parser of expressions.

Tests: tests/core/expressions/parsing.
"""
