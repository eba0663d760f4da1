"""Java's regular expressions, as Spark runs them, translated to Rust's, as Polars runs them.

A pattern is parsed as Java parses it, into a tree with the same meaning in both engines, and then
written for Rust. A construct without an exact counterpart there is a RegexError that names it.

Tests: tests/core/expressions/regex and tests/core/expressions/test_spark_answers.py.
"""
