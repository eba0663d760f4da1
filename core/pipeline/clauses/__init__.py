"""The clauses of steps in a pipeline document."""
