"""Savepoints: the state of a job in an open format, in a folder that belongs to the user."""
