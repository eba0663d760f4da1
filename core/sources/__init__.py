"""Sources of a job: reading splits, event time, watermarks and idleness."""
