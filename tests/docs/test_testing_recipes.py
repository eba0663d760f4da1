"""The function of docs/testing-recipes.md that runs tests of pipelines in pytest."""

import re
from pathlib import Path

import pytest

from docs.snippets import ROOT, search_path

PIPELINE = """\
name: t
sources: {rows: {generate: {rows: 1, columns: {a: id}}}}
sinks: {out: {from: rows, console: {}}}
tests: [{name: t, given: [rows: {rows: [{a: 1}]}], expect: {rows: [{a: %d}]}}]
"""


def test_it_fails_with_the_differing_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/testing-recipes.md").read_text("utf-8")
    found = re.search(
        r"^```python\n# test_pipelines.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    names: dict[str, object] = {}
    exec(found[1], names)
    run = names["test_pipelines_pass_their_tests"]
    assert callable(run)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", search_path())
    Path("t.yaml").write_text(PIPELINE % 1, "utf-8")
    run()
    Path("t.yaml").write_text(PIPELINE % 2, "utf-8")
    with pytest.raises(AssertionError, match=r"\+ 1"):
        run()
