"""`headrace run` as a process: for signals, pipes and terminals."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Queue
from typing import IO
from typing import AnyStr as T

from headrace.core.job.signals import REPEAT_S
from tests.support.cli.command_process import HEADRACE, start_headrace

RUN = (*HEADRACE, "run")
CONTROL = re.compile(r"\x1b\[(\d*)([A-Za-z])|\r\n|\n|\r")


LONGEST_S = 600.0


def limited(process: subprocess.Popen[T], longest_s: float = LONGEST_S) -> subprocess.Popen[T]:
    """The process, killed if it outlives every test."""
    limit = threading.Timer(longest_s, process.kill)
    limit.daemon = True
    limit.start()
    return process


def met(pipe: Path, mode: str, longest_s: float = LONGEST_S) -> IO[str]:
    """The end of a named pipe when a process opens the other; raises Empty when none ever does."""
    opened: Queue[IO[str]] = Queue()
    threading.Thread(target=lambda: opened.put(pipe.open(mode)), daemon=True).start()
    return opened.get(timeout=longest_s)


def start(folder: Path, *arguments: str, longest_s: float = LONGEST_S) -> subprocess.Popen[str]:
    """Start it in a folder; both streams are pipes."""
    pipe = subprocess.PIPE
    return limited(
        start_headrace("run", *arguments, cwd=folder, stdout=pipe, stderr=pipe, text=True),
        longest_s,
    )


def send_again(process: subprocess.Popen[T], number: int) -> None:
    """Send a signal that is not taken for a repetition of the one before."""
    time.sleep(2 * REPEAT_S)
    process.send_signal(number)


def until_full(pipe: IO[str]) -> None:
    """Wait until nothing more is written to a pipe, which nobody reads."""
    before, held = -1, 0
    while not 0 < held == before:
        time.sleep(0.2)
        before, held = held, int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), "little")


def ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Return the remaining output of both streams, after the process has ended."""
    assert process.stdout is not None and process.stderr is not None
    with process:
        printed = process.stdout.read(), process.stderr.read()
    return printed


def finished(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    process = start(folder, *arguments)
    out, err = ended(process)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def stop_behind(folder: Path, checkpoint: int, *arguments: str) -> None:
    """Run p.yaml until it has taken this checkpoint, then stop it."""
    process = start(folder, "p.yaml", "--log", "json", *arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("number") == checkpoint:
            break
    process.terminate()
    ended(process)
    assert process.returncode == 0


class OnTerminal:
    """Both streams on one terminal of 80 columns and 24 lines."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._terminal, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, 80))
        environment = os.environ | {"TERM": "xterm"}
        self.process = limited(
            start_headrace(
                "run", *arguments, cwd=folder, stdout=theirs, stderr=theirs, env=environment
            )
        )
        os.close(theirs)
        self.shown = ""

    def until(self, text: str) -> None:
        """Read until this was shown."""
        while text not in self.shown:
            if not self._more():
                raise AssertionError(f"{text!r} was never shown, but:\n{self.shown}")

    def until_seen(self, seen: Callable[[Sequence[str]], bool]) -> None:
        """Read until the lines on the screen are like that; they may be half drawn at any time."""
        while not seen(screen(self.shown)):
            if not self._more():
                raise AssertionError(f"it was never seen, but:\n{self.shown}")

    def rest(self) -> int:
        """Read to the end; the exit status."""
        while self._more():
            pass
        os.close(self._terminal)
        return self.process.wait(LONGEST_S)

    def _more(self) -> bool:
        try:
            data = os.read(self._terminal, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)


def screen(shown: str) -> Sequence[str]:
    """The lines that a terminal without end has in the end; colours are left out.

    >>> screen("a\\nb\\r\\n\\x1b[1A\\x1b[Jc\\n")
    ['a', 'c']
    """
    lines, row, column, at = [""], 0, 0, 0
    for control in CONTROL.finditer(shown):
        text, at = shown[at : control.start()], control.end()
        lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
        column += len(text)
        match control[0][-1], control[1]:
            case ("\n", _):
                row, column = row + 1, 0
                lines.extend([""] * (row + 1 - len(lines)))
            case ("\r", _):
                column = 0
            case ("A", count):
                row -= int(count or 1)
            case ("J", _):
                lines[row:] = [lines[row][:column]]
    return [line.rstrip() for line in lines if line.strip()]
