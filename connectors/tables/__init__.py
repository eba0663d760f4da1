"""Tables outside of a job: files, databases and HTTP servers to look up, and databases to write.

Tests: tests/connectors/tables and tests/core/operators/lookup.
"""
