"""Tables that lookups ask: a file, a database, a server."""
