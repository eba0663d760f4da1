"""Where keyed state and snapshots are kept. Stands on `headrace.core` alone."""
