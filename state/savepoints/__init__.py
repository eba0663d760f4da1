"""Savepoints: what a job keeps, in an open format, in a folder that is the user's own."""
