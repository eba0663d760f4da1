"""Java's regular expressions, as Spark runs them, said in the language of Rust's, as Polars runs.

A pattern is parsed as Java parses it, into a tree whose meaning is that of both engines, and then
written for Rust. What has no exact counterpart there is a PatternError that names it.
"""
