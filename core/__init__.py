"""The engine: pipelines, plans and their execution.

Core imports no connector and no state backend; Spark is imported in `core/spark` alone.

Tests: tests/core; windows.py, an old import path, in tests/test_public_names.py.
"""
