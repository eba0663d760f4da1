"""State as people read it: keys, windows and results, made of what a step keeps.

A checkpoint has, beside what a state means (`plan/fingerprint`), what it takes to read it without
the pipeline: the names of the key's columns, the expressions of the aggregates, the types of what
they are of, the window (`described`). From that the operation of a step is made again (`meaning`),
and with its folds what is kept becomes rows (`states`). Where a checkpoint does not say that, or an
expression has a secret in it, columns are shown as they are kept (`raw`).
"""
