"""`make kafka`, and the page about it: a broker until Ctrl-C, whose topics stay."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from difflib import ndiff
from pathlib import Path

import pytest

from docs.snippets import ROOT, refreshed
from docs.write import DOCS
from tests.support.cli.page_commands import run_page_command
from tests.support.kafka.broker import HOST, Broker, free_ports, serves
from tests.support.kafka.local_broker import main, parse_arguments, parse_topic
from tests.support.kafka.topics import Topics

Fresh = Callable[..., str]

PAGE = (DOCS / "local-kafka.md").read_text("utf-8")


def documented_call() -> str:
    """The call of make at the beginning of the page."""
    call = re.search(r"^make kafka .*$", PAGE, re.MULTILINE)
    assert call is not None
    return call[0]


def words_of_make(*variables: str) -> list[str]:
    """The words that make hands over; nothing is run or set up."""
    command = ["make", "--dry-run", "--old-file=setup", "kafka", *variables]
    # `make test` hands its own words to every make below it.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    elsewhere = {**own, "PORT": "80", "TOPICS": "others"}
    said = subprocess.run(command, cwd=ROOT, env=elsewhere, stdout=subprocess.PIPE, text=True)
    return shlex.split(said.stdout.splitlines()[-1].partition(" tests.support.kafka.")[2])[1:]


@contextmanager
def running(
    folder: Path, port: int, *topics: str, ends_by: signal.Signals = signal.SIGINT
) -> Iterator[list[str]]:
    """What it says until it serves; it is ended as by Ctrl-C, or by another signal."""
    module = [sys.executable, "-m", "tests.support.kafka.local_broker"]
    with subprocess.Popen(
        [*module, "--port", str(port), "--folder", str(folder), *topics],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # as a terminal has it: all of it hears of Ctrl-C
    ) as started:
        assert started.stdout is not None
        lines: list[str] = []
        for line in started.stdout:
            lines.append(line.rstrip())
            if line.startswith("Ctrl-C stops it"):
                break
        yield lines
        os.killpg(started.pid, ends_by)
        rest = started.stdout.read()
    assert (started.returncode, rest) == (0, "stopped\n"), lines


def hang_up(server: socket.socket) -> None:
    """Close each connection as soon as it comes."""
    with suppress(OSError):  # once the server is closed
        while True:
            server.accept()[0].close()


@pytest.mark.kafka
@pytest.mark.slow
def test_ctrl_c_ends_the_broker_and_its_topics_stay(tmp_path: Path) -> None:
    port = free_ports(["PLAINTEXT"])["PLAINTEXT"]
    with running(tmp_path, port, "orders:3") as lines:
        assert lines[1:3] == [f"a broker runs at {HOST}:{port}", "  orders, partitions: 3"]
        assert serves(port)
    assert not serves(port)
    with running(tmp_path, port, ends_by=signal.SIGTERM) as lines:
        assert "  orders, partitions: 3" in lines
    assert not serves(port)


def test_the_commands_of_the_page_print_what_it_says(
    broker: Broker,
    topics: Topics,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a broker that runs already, which gets the topics."""
    given = parse_arguments(words_of_make(*shlex.split(documented_call())[2:]))
    assert given.topics and given.port == 9092
    port = broker.ports["PLAINTEXT"]
    words = [f"{name}:{partitions}" for name, partitions in given.topics]
    try:
        assert main(["--port", str(port), *words]) == 0
        assert f"a broker runs already at {broker.address}\n" in (said := capsys.readouterr().out)
        for name, partitions in given.topics:
            line = f"  {name}, partitions: {partitions}\n"
            assert line in said and line in PAGE
        monkeypatch.setenv("BROKERS", broker.address)
        now = refreshed(PAGE, run_page_command).splitlines()
        assert not [line for line in ndiff(PAGE.splitlines(), now) if line[0] in "-+"]
    finally:
        for name, _ in given.topics:
            topics.delete(name)


def test_a_topic_that_exists_is_left_as_it_is(
    broker: Broker, topics: Topics, fresh: Fresh, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = topics.create(fresh(), 2)
    assert main(["--port", str(broker.ports["PLAINTEXT"]), f"{topic}:3"]) == 0
    assert f"{topic} exists with 2 partitions, not 3" in capsys.readouterr().out
    assert len(topics.partitions(topic)) == 2


def test_make_takes_the_port_from_its_words_only() -> None:
    assert words_of_make() == ["--port", "9092"]
    assert words_of_make("PORT=9192", "TOPICS=a:2 b") == ["--port", "9192", "a:2", "b"]


def test_a_port_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = other.getsockname()[1]
        threading.Thread(target=hang_up, args=(other,), daemon=True).start()
        assert main(["--port", str(port), "--folder", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"port {port} is taken, and not by a Kafka broker: choose another with PORT=\n"
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("word", ["orders:", "orders:0", "orders:many", ":3", "a/b", "..", ".:2"])
def test_words_that_name_no_topic_are_refused(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--port", "1", word])
    said = capsys.readouterr().err
    assert f"wanted NAME or NAME:PARTITIONS, as in orders:4, got {word}\n" in said


def test_a_topic_without_a_number_has_one_partition() -> None:
    assert [*map(parse_topic, ("orders", "a.b_c-d:12"))] == [("orders", 1), ("a.b_c-d", 12)]
