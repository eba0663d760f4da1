"""Connectors: sources, sinks and lookup tables. They depend on `headrace.core` alone."""
