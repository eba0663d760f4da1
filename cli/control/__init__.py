"""Control of a running job: a Unix socket with a small HTTP/JSON API, and its clients.

Tests: tests/cli/control and tests/cli/test_job_commands.py.
"""
