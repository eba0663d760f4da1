"""`headrace state`: inspects checkpoints and savepoints, for people and programs.

Tests: tests/cli/state.
"""
