"""Python files that a pipeline names, read as text.

Tests: tests/core/pipeline/user_files.
"""
