"""Dates and times as text, by patterns of Java's letters: `writing` and `reading`."""
