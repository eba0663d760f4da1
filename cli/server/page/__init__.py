"""The page of the server: static files, served as they are to anybody; they hold no data.

Tests: tests/cli/server/test_tcp_server.py.
"""
