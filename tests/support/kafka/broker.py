"""A Kafka broker for tests: one node with its own ports and folder, which tests may kill.

It is a process of the real thing. Clients reach it by the same address for all of its lives, so a
test may kill, freeze or restart it under them. It does not outlive its starter, whatever way that
ends: a watch holds the end of a pipe, which breaks then. (A signal at the parent's death would not
do: it comes at the death of the thread that started it.)
"""

from __future__ import annotations

import base64
import os
import random
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Self

from tests.support.kafka.broker_jars import NoKafka, java
from tests.support.kafka.java_archive import archived

HOST = "127.0.0.1"
CONTROLLER = "CONTROLLER"
LONGEST_S = 60.0
"""How long it may take to start or to stop, on a machine that has much else to do."""

ASK_FOR_VERSIONS = b"\0\0\0\x0a" + b"\0\x12" + b"\0\0" + b"\0\0\0\1" + b"\xff\xff"
"""ApiVersions, version 0: a broker that answers it serves."""

WATCH = 'read -r line; kill -KILL "$1"'

SETTINGS: Mapping[str, str] = MappingProxyType(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": "PLAINTEXT",
        "num.partitions": "1",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # How often it looks for transactions that are open for too long.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": "4194304",
        # After a kill its former life must be seen to be over: by default that takes 9 s.
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "200",
    }
)

PLAINTEXT: Mapping[str, str] = MappingProxyType({"PLAINTEXT": "PLAINTEXT"})


class Broker(AbstractContextManager["Broker"]):
    """Made, it does not run yet; as a context it runs and is stopped.

    `listeners` names what protocol each listener of it speaks, `settings` is what else is in its
    properties, and `users` who may log in by SCRAM: (mechanism, name, password). `options` are
    those of its Java, if not what makes it start fast. `port` is that of the listener PLAINTEXT, if
    not any free one. A folder may be that of an earlier broker, with its topics.
    """

    def __init__(
        self,
        folder: Path,
        listeners: Mapping[str, str] = PLAINTEXT,
        settings: Mapping[str, str] = SETTINGS,
        users: tuple[tuple[str, str, str], ...] = (),
        options: Sequence[str] | None = None,
        port: int | None = None,
    ) -> None:
        self.folder = folder
        self.ports = free_ports([*listeners, CONTROLLER])
        if port is not None:
            self.ports["PLAINTEXT"] = port
        self._listeners = {**listeners, CONTROLLER: "PLAINTEXT"}
        self._settings = {**SETTINGS, **settings}
        self._users = users
        self._options = fast() if options is None else options
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The address for clients without credentials."""
        return self.at("PLAINTEXT")

    def at(self, listener: str) -> str:
        """Return the address of a listener."""
        return f"{HOST}:{self.ports[listener]}"

    @property
    def log(self) -> Path:
        """The log of the broker, including its earlier lives."""
        return self.folder / "broker.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Return when it serves, with all that it had been given before."""
        assert self._process is None, "it runs already"
        self._write_properties()
        if not (self._data / "meta.properties").exists():
            self._format()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                java("kafka.Kafka", str(self._properties), options=self._options),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        try:
            self._watch = watching(self._process.pid)
            self._wait_until_it_serves(self._process)
        except BaseException:  # also when the caller is cancelled
            self.kill()
            raise

    def stop(self) -> None:
        """Let it end in good order."""
        self._end(signal.SIGTERM)

    def wait(self) -> None:
        """Return when it has ended by itself, or was killed from outside."""
        self._running.wait()

    def kill(self) -> None:
        """End it as a power cut would, but for what the system still writes."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it in good order if it runs, and start it."""
        self.close()
        self.start()

    def pause(self) -> None:
        """Freeze the broker: it stops answering, but its connections stay open."""
        process = self._running
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)  # some of its threads still run until then

    def resume(self) -> None:
        """Let the frozen broker continue."""
        self._running.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop it if it runs."""
        if self._process is not None:
            self.resume()
            self.stop()

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "it does not run"
        return self._process

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def _end(self, by: signal.Signals) -> None:
        process = self._running
        process.send_signal(by)
        try:
            process.wait(LONGEST_S)
        except BaseException:  # also when the caller is interrupted
            process.kill()
            process.wait()
            raise
        finally:
            self._process = None
            self._stop_watching()

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.kill()  # before its pipe is closed, and the number may be another's
            with self._watch:
                self._watch = None

    def _wait_until_it_serves(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + LONGEST_S
        while not serves(self.ports["PLAINTEXT"]):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NoKafka(f"the broker did not start; the end of {self.log}:\n{self._said()}")
            time.sleep(0.05)

    def _said(self) -> str:
        return "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-40:])

    def _write_properties(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = {**self._settings, **self._addresses(), "log.dirs": str(self._data)}
        lines = (f"{name}={value}\n" for name, value in properties.items())
        self._properties.write_text("".join(lines), "utf-8")

    def _format(self) -> None:
        """Make its data folder, which names the cluster, what it can do, and who may log in."""
        # A "-" at its front would be taken for an option.
        cluster = base64.b64encode(uuid.uuid4().bytes, b"__").decode().rstrip("=")
        command = java("kafka.tools.StorageTool", "format", "-t", cluster)
        command += ["-c", str(self._properties)]
        for mechanism, name, password in self._users:
            command += ["--add-scram", f"{mechanism}=[name={name},password={password}]"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder)
        if done.returncode:
            raise NoKafka(f"the broker's folder could not be made: {done.stdout}{done.stderr}")

    def _addresses(self) -> dict[str, str]:
        at = {name: f"{name}://{self.at(name)}" for name in self._listeners}
        protocols = (f"{name}:{protocol}" for name, protocol in self._listeners.items())
        return {
            "controller.quorum.voters": f"1@{self.at(CONTROLLER)}",
            "listeners": ",".join(at.values()),
            "advertised.listeners": ",".join(at[name] for name in at if name != CONTROLLER),
            "listener.security.protocol.map": ",".join(protocols),
        }


@cache
def fast() -> Sequence[str]:
    """Return the Java options for a fast start, trained by a broker that is started for it."""
    return archived(java("kafka.Kafka"), _lives_once)


def _lives_once(option: str) -> None:
    with (
        TemporaryDirectory() as folder,
        suppress(subprocess.TimeoutExpired),
        Broker(Path(folder) / "broker", options=(option,)),
    ):
        pass


def free_ports(names: list[str]) -> dict[str, int]:
    """Return free ports, which no client gets while the broker is down.

    They are below those that a system assigns to clients: one of these could be taken at a restart.
    """
    ports: dict[str, int] = {}
    while len(ports) < len(names):
        port = random.randrange(20_000, 32_000)
        if port not in ports.values() and is_free(port):
            ports[names[len(ports)]] = port
    return ports


def is_free(port: int) -> bool:
    """Whether nothing listens on the port."""
    with socket.socket() as tried:
        try:
            tried.bind((HOST, port))
        except OSError:
            return False
    return True


def serves(port: int) -> bool:
    """Whether a broker answers there."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=2.0) as connection:
        connection.sendall(ASK_FOR_VERSIONS)
        return len(connection.recv(4)) == 4
    return False


def watching(process: int) -> subprocess.Popen[bytes]:
    """Have the process killed when this one is gone."""
    command = ["/bin/sh", "-c", WATCH, "watch", str(process)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
