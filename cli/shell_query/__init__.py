"""`headrace query`: SQL over files at the shell.

Tests: tests/cli/test_query.py.
"""
