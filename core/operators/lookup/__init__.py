"""The `lookup` operation: rows are enriched from an external table, with batched requests.

A `LookupClient` is shared by the subtasks of a step in one process: it has the cache, the calls in
flight, and their retries. A `LookupJoin` computes the keys and the output of rows, and never waits.
A `LookupTask` waits for answers, between the gate of a subtask and its operators. The cache is not
state: after a restart keys are requested again, and their rows may have changed.

Tests: tests/core/operators/lookup.
"""
