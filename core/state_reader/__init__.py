"""State as rows for people: keys, windows and results, computed from the state of a step.

A checkpoint contains, in addition to the meaning of a state (`plan/fingerprint`), the metadata to
read it without the pipeline: the names of the key's columns, the expressions of the aggregates and
the types of their columns, the window (`reader_metadata`). From the metadata the operation of a
step is rebuilt (`state_schema`), and its folds turn state into rows (`keyed_states`). Where a
checkpoint has no metadata, or an expression contains a secret, columns are shown as they are
stored.

Tests: tests/core/state_reader.
"""
