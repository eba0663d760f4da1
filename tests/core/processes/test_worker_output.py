"""What a worker process prints, and how it appears where the command runs."""

import io
import os
import sys
from pathlib import Path

import pytest

from headrace.cli.worker_launch import print_line
from headrace.core.processes.worker_process import start_process

PRINTING = """\
import sys

for number in range(2000):
    print("line", number)
sys.stderr.write("first\\n\\nlast \\N{SNOWMAN}")
sys.stdout.write("without an end")
"""


def test_lines_keep_their_order_and_a_last_one_without_an_end_comes(tmp_path: Path) -> None:
    (tmp_path / "printing_module.py").write_text(PRINTING)
    lines: dict[bool, list[str]] = {False: [], True: []}
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONUTF8": "1"}
    worker = start_process(
        1, "printing_module", environment, lambda line, is_error: lines[is_error].append(line)
    )
    assert worker.wait_for_end(30) == "it ended with status 0"
    assert lines[False] == [*(f"line {number}" for number in range(2000)), "without an end"]
    assert lines[True] == ["first", "", "last \N{SNOWMAN}"]


class RecordedWrites(io.StringIO):
    """A stream that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


@pytest.mark.parametrize("is_error", [False, True])
def test_a_line_is_one_write_so_that_lines_of_workers_do_not_mix(
    monkeypatch: pytest.MonkeyPatch, is_error: bool
) -> None:
    stream = RecordedWrites()
    monkeypatch.setattr(sys, "stderr" if is_error else "stdout", stream)
    print_line("one", is_error)
    print_line("two", is_error)
    assert stream.writes == ["one\n", "two\n"]
