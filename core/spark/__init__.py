"""Batch execution on Spark: a plan as DataFrames, with headrace's operators inside executors.

Nothing here is loaded before `--batch` is requested; pyspark is installed only with the extra of
that name.

Tests: tests/core/spark and tests/cli/batch.
"""
