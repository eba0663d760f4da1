"""Tests of a pipeline as users write them: the section `tests`, and files `NAME.test.yaml`.

Tests: tests/cli/pipeline_tests, with every message in test_mistakes.py.
"""
