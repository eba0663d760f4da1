"""Patterns over the rows of a key: their syntax tree, their parser, and the automaton of one.

Tests: tests/core/patterns.
"""
