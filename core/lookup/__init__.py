"""Rows enriched from a table that is elsewhere: keys asked for in bulk, answers awaited in order.

What runs of a `lookup`. `asked` is shared by the subtasks of a step in one process: which keys are
known, which are on their way, and calls with their patience. `stage` says what becomes of rows, and
waits for nothing; `relay` is what waits, between the gate of a subtask and its operators. Nothing
of it is state: what was remembered is asked for again behind a restart, and may have changed.
"""
