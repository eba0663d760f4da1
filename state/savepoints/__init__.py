"""Savepoints: the state of a job in an open format, in a folder that belongs to the user.

Tests: tests/state/savepoints; upload in tests/state/storage/remote/test_savepoint_upload.py.
"""
