"""`headrace run --batch`: runs a pipeline once over all existing rows, on Spark.

Tests: tests/cli/batch.
"""
