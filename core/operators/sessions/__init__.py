"""Session windows: pieces of sessions, open ones, those that were shown, and their operator."""
