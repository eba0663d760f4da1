"""A job: its attempts, recovery, requests, statistics and launch."""
