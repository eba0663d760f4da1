"""Short processes: what is read of them, and how they end."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson
import pytest

from headrace.cli.server import pipeline_check, state_queries
from headrace.cli.server.short_process import AnswerTooLarge, ShortProcess

MODULES = (pipeline_check.__name__, state_queries.__name__)


@pytest.mark.parametrize("module", MODULES)
def test_files_of_the_working_directory_are_no_modules(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise ImportError('not the standard library')\n")
    (tmp_path / "orjson.py").write_text("raise ImportError('not the installed package')\n")
    monkeypatch.chdir(tmp_path)
    request = [] if module == pipeline_check.__name__ else {"job": "a", "home": ".", "sql": None}
    answer = asyncio.run(ShortProcess(module, 2**20).ask(request))
    assert "ImportError" not in answer.failure
    assert isinstance(orjson.loads(answer.output), list | dict)


def test_a_process_that_prints_too_much_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "import sys\nwhile True:\n    sys.stdout.write('x' * 4096)\n"
    process = write_module(tmp_path, monkeypatch, endless)
    with pytest.raises(AnswerTooLarge, match="more than 1,000,000 bytes"):
        asyncio.run(process.ask({}))


def test_the_last_line_of_the_errors_is_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = (
        "import sys\nprint('x\\n' * 1_000_000, file=sys.stderr)\nprint(1)\nraise ValueError('no')"
    )
    answer = asyncio.run(write_module(tmp_path, monkeypatch, failing).ask({}))
    assert (answer.status, answer.output, answer.failure) == (1, b"1\n", "ValueError: no")


def test_a_process_that_does_not_read_gets_more_than_a_pipe_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = asyncio.run(write_module(tmp_path, monkeypatch, "print(2)").ask("x" * 2**20))
    assert (answer.status, answer.output) == (0, b"2\n")


def test_a_request_that_is_cancelled_leaves_its_turn_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys, time\nasked = sys.stdin.read()\n"
        "time.sleep(3600 if asked == '1' else 0)\nprint(asked)\n"
    )
    process = write_module(tmp_path, monkeypatch, code)

    async def ask_three() -> tuple[int, list[bytes]]:
        tasks = [asyncio.create_task(process.ask(number)) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        waiting = process.waiting
        tasks[0].cancel()
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        answers = [await tasks[2], await process.ask(4)]
        return waiting, [each.output for each in answers]

    assert asyncio.run(ask_three()) == (2, [b"3\n", b"4\n"])
    assert process.waiting == 0


def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> ShortProcess:
    """Write a module that processes find, in a folder of its own."""
    (folder / "answering.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", ":".join([str(folder), *sys.path]))
    return ShortProcess("answering", 1_000_000)
