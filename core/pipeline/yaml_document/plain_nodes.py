"""Plain values as nodes, so that what they say is read as in a file.

The nodes have no places of their own: all stand at the start of the file that is given.

Tests: tests/cli/pipeline_tests/test_pipeline_trial.py and tests/cli/test_query.py.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta

from headrace.core.pipeline.yaml_document.nodes import (
    YamlEntry,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
)
from headrace.core.pipeline.yaml_document.source_file import SourceText


def build_node(file: SourceText, value: object) -> YamlNode:
    """Build the node of a value."""
    match value:
        case None:
            return YamlScalar(file, 0, 0, "null")
        case Mapping():
            entries = (
                YamlEntry(build_text_node(file, str(key)), build_node(file, each))
                for key, each in value.items()
            )
            return YamlMapping(file, 0, 0, tuple(entries))
        case list() | tuple():
            return YamlSequence(file, 0, 0, tuple(build_node(file, each) for each in value))
    return build_text_node(file, write_plain_value(value).replace("${", "$${"))


def build_text_node(file: SourceText, text: str) -> YamlScalar:
    """Build the node of a text, which is none that means the absence of a value."""
    return YamlScalar(file, 0, 0, text, "=", is_text=True)


def write_plain_value(value: object) -> str:
    """Write a value as in a file.

    >>> write_plain_value(True), write_plain_value(timedelta(minutes=5)), write_plain_value(1.5)
    ('true', '300000ms', '1.5')
    """
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return f"{value // timedelta(milliseconds=1)}ms"
        case os.PathLike():
            return str(os.fspath(value))
    return str(value)
