"""`make kafka`: a Kafka broker on this machine to try pipelines with, and its topics.

It runs until Ctrl-C, with the broker of the tests. Started again while it runs, or while any other
broker serves the port, it only creates topics. Topics outlive it, because checkpoints of jobs have
positions in them: each port has a folder of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from confluent_kafka import KafkaException

from tests.support.kafka.broker import HOST, Broker, serves
from tests.support.kafka.broker_jars import NoKafka
from tests.support.kafka.topics import Topics
from tests.support.paths import ROOT

FOLDER = ROOT / "build" / "kafka"

TOPIC = re.compile(r"(?!\.{1,2}(?::|$))([\w.-]{1,249})(?::([1-9]\d{0,3}))?", re.ASCII)

Topic: TypeAlias = tuple[str, int]
"""The name of a topic, and how many partitions it shall have."""


def parse_topic(text: str) -> Topic:
    """Return the topic that a word of the command line names."""
    if (found := TOPIC.fullmatch(text)) is None:
        raise argparse.ArgumentTypeError(
            f"wanted NAME or NAME:PARTITIONS, as in orders:4, got {text}"
        )
    return found[1], int(found[2] or 1)


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return port, folder and topics; ends the process if the words are wrong."""
    parser = argparse.ArgumentParser(prog="make kafka", usage='make kafka TOPICS="NAME:4 NAME"')
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("topics", type=parse_topic, nargs="*", metavar="TOPICS")
    return parser.parse_args(words)


def prepare_topics(address: str, wanted: Sequence[Topic]) -> None:
    """Create the topics that do not exist, and print all that do."""
    topics = Topics(address)
    for name, partitions in wanted:
        if not (found := len(topics.partitions(name))):
            topics.create(name, partitions)
        elif found != partitions:
            print(f"{name} exists with {found} partitions, not {partitions}; it is left as it is")
    for name in sorted(name for name in topics.names() if not name.startswith("__")):
        print(f"  {name}, partitions: {len(topics.partitions(name))}")


def is_taken(port: int) -> bool:
    """Whether anything accepts connections there."""
    with socket.socket() as tried:
        return tried.connect_ex((HOST, port)) == 0


def run_broker(folder: Path, port: int, wanted: Sequence[Topic]) -> None:
    """Run the broker until it ends, with these topics; if one runs already, create them there."""
    address = f"{HOST}:{port}"
    if serves(port):
        print(f"a broker runs already at {address}")
        return prepare_topics(address, wanted)
    if is_taken(port):
        raise NoKafka(f"port {port} is taken, and not by a Kafka broker: choose another with PORT=")
    print("starting a Kafka broker (the first time on a machine its jars are fetched) ...")
    sys.stdout.flush()
    with Broker(folder / str(port), port=port) as broker:
        print(f"a broker runs at {address}")
        prepare_topics(address, wanted)
        print(f"Ctrl-C stops it; its topics stay in {os.path.relpath(broker.folder)}")
        sys.stdout.flush()
        broker.wait()
    raise NoKafka(f"the broker ended; its log is {broker.log}")


def main(words: Sequence[str]) -> int:
    """Return the exit status: 0 also if Ctrl-C stopped the broker."""
    given = parse_arguments(words)
    try:
        run_broker(given.folder, given.port, given.topics)
    except KeyboardInterrupt:
        print("stopped")
    except KafkaException as error:
        print(f"the broker refuses: {error.args[0].str()}", file=sys.stderr)
        return 1
    except NoKafka as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def handle_signals() -> None:
    """Stop the broker in good order however this process is asked to end.

    That includes Ctrl-C in a process that a script starts in the background: it would ignore that.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


if __name__ == "__main__":
    handle_signals()
    sys.exit(main(sys.argv[1:]))
