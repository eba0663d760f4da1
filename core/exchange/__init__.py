"""The exchange between the processes of a job: batches, control elements, credits and messages.

Processes are joined by socketpairs, whose ends they inherit or pass to each other.

Tests: tests/core/exchange.
"""
