"""YAML as nodes that know their positions in the file."""
