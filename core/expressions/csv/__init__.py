"""The text of one CSV record, as Spark's `from_csv` and `to_csv` read and write it.

Tests: tests/core/expressions/test_spark_answers.py (the family csv_texts).
"""
