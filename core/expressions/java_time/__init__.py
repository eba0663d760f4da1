"""Formatting and parsing of dates and times by Java's patterns."""
