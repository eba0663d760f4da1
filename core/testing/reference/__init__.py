"""An interpreter that gives plans their meaning row by row, without batches, state or time.

It is slow and simple on purpose: runs, batch runs and `headrace simulate` are compared with it.

Tests: tests/core/operators, tests/core/plan and tests/cli/simulation.
"""
