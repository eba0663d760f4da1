"""What reads and writes the outside world. Stands on `headrace.core` alone."""
