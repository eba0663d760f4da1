"""Keyed state and snapshots: state backends, savepoints and storage. Imports only `headrace.core`."""
