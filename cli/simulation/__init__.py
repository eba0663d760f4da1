"""`headrace simulate`: runs a pipeline on random rows under faults, and compares the results.

Tests: tests/cli/simulation.
"""
