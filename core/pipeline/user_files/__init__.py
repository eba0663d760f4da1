"""Python files that a pipeline names, read as text."""
