"""The state backend in memory: tables and runs of columns."""
