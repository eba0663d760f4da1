"""The problems of broken documents: every message, position, caret and hint, word for word."""

from pathlib import Path

import pytest

from tests.support.pipeline.broken_documents import Case, all_cases, said

CASES = [pytest.param(case, id=f"{file}: {case.title}") for file, case in all_cases()]


@pytest.mark.parametrize("case", CASES)
def test_what_is_said(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert said(case.document, case.overrides) == case.said


@pytest.mark.parametrize("case", CASES)
def test_nothing_of_a_library_is_said(case: Case) -> None:
    for word in (
        "yaml.",
        "Traceback",
        "None",
        "hunter2",
    ):
        assert word not in case.said
