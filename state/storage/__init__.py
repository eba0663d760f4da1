"""Where a job keeps what must outlive it: its home, the lock of it, its checkpoints."""
