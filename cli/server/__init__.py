"""`headrace serve`: a server that runs the jobs of one home, each in a process of its own.

The server supervises processes, and forwards requests to the jobs' own sockets. It never imports
Polars: what needs it runs in short processes.

Tests: tests/cli/server.
"""
