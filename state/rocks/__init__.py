"""State in memory as far as it fits, and on disk beyond."""
