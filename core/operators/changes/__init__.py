"""Operators that read a stream of changes: they keep its rows as they are now."""
