"""Storage of a job's checkpoints in a bucket."""
