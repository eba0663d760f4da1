"""Workers in processes of their own: how they are started, spoken to, watched and ended.

The coordinator's process runs no subtasks then. Tests: tests/core/processes, and
tests/cli/test_workers.py with real processes.
"""
