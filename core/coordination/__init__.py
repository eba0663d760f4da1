"""The decisions of a job, without a clock and without I/O: checkpoints, splits, restarts."""
