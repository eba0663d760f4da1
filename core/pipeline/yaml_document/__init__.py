"""YAML as nodes that know their positions in the file.

Tests: tests/core/pipeline/yaml_document and tests/core/pipeline/test_broken_documents.py.
"""
