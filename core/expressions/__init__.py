"""Spark SQL expressions: read, typed, and compiled to Polars with Spark's exact meaning."""
