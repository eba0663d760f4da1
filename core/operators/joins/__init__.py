"""Joins: rows of two inputs that meet, by their keys and by their times."""
