"""The engine: pipelines, plans and their execution.

Core imports no connector and no state backend; Spark is imported in `core/spark` alone.

Tests: tests/core; user-defined windows in tests/core/operators/windows/test_user_functions.py.
"""
