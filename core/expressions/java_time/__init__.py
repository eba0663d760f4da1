"""Formatting and parsing of dates and times by Java's patterns.

Tests: tests/core/expressions/java_time and tests/core/expressions/test_spark_answers.py.
"""
