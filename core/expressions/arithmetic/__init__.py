"""Arithmetic with the results of Spark: decimals, wide integers, rounding, floats.

Tests: tests/core/expressions/arithmetic and tests/core/expressions/test_spark_answers.py.
"""
