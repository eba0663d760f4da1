"""The clauses of steps in a pipeline document.

Tests: tests/core/pipeline/test_broken_documents.py and tests/core/plan/test_keyed_errors.py.
"""
