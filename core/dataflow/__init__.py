"""The path of batches within an attempt: channels, gates, operator tasks and output edges.

Tests: tests/core/dataflow and tests/core/job; lookups in tests/core/operators/lookup.
"""
