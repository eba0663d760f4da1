"""Storage of everything that outlives a job's process: its home, the home's lock, its checkpoints."""
