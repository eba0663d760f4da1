"""Operators: synchronous objects that compute the rows of a step, tested with literal values.

An operator never waits and knows no asyncio. Rows and watermarks go in, batches of rows come out,
each with the name of its stream. Large results are emitted in bounded batches.

Tests: tests/core/operators.
"""
