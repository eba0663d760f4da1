"""The `files` connector: a file is a split of a source, or a part of a sink's output.

Tests: tests/connectors/files.
"""
