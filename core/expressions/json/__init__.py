"""JSON texts as Spark's functions read and write them, which is how Jackson does.

Tests: tests/core/expressions/functions/test_json.py, tests/core/expressions/test_spark_answers.py.
"""
