"""The command line: assembles the parts of headrace and prints; it holds no other logic.

Tests: tests/cli.
"""
