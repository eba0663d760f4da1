"""Joins: rows of two inputs matched by their keys and times."""
