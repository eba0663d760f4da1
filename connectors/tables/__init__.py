"""Lookup tables: a file, a database, an HTTP server."""
