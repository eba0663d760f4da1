"""What YAML's own scanner says, in words for somebody who is writing a pipeline."""

from __future__ import annotations

import yaml

from headrace.core.pipeline.file import File
from headrace.core.problems import Problem


def explained(file: File, error: yaml.YAMLError) -> Problem:
    """The problem behind an error of PyYAML."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    at = mark.index if mark is not None else getattr(error, "position", 0)
    return Problem("this is not YAML", file.place(at, at + 1), str(getattr(error, "problem", "")))
