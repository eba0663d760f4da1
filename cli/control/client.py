"""Speaks to a running job, for commands: what it answers, or why it cannot be asked."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from headrace.cli.control import sockets
from headrace.cli.control.http import JSON
from headrace.cli.control.naming import NoSuchJob, home_of, is_home
from headrace.cli.failures import Refusal
from headrace.core.snapshots import SnapshotError
from headrace.state.storage.home import Home

Document: TypeAlias = "dict[str, Any]"
Pause: TypeAlias = Callable[[float], None]

PATIENCE_S = 20.0
"""How long a job may take to answer; its loop may be held by a user's function."""

START_S = 5.0
"""How long a job that is starting is waited for."""

NAME_S = 1.5
"""How long the home of a name that nobody knows is: it may be mistyped."""

PAUSE_S = 0.05

STATUSES = {400: 2, 404: 2, 405: 2, 409: 3, 413: 2, 415: 2}
"""Exit statuses of refused requests; of all others it is 1."""


class NotThere(Exception):
    """Nobody listens in this home."""


class NoAnswer(Exception):
    """Somebody listens, and has not answered, or not to the end."""


class Closed(NoAnswer):
    """It has hung up: its process is about to end, perhaps."""


class _Connection(http.client.HTTPConnection):
    """HTTP over the socket of a home."""

    def __init__(self, folder: str, timeout_s: float) -> None:
        super().__init__("job", timeout=timeout_s)
        self.folder = folder
        self.timeout_s = timeout_s

    def connect(self) -> None:
        """Connect to the job."""
        self.sock = sockets.connect(self.folder, self.timeout_s)


@dataclass(slots=True)
class Client:
    """Of one home."""

    home: Home
    is_new: bool = False
    """Whether the home was not there when it was asked for: its first run may be starting."""
    pause: Pause = time.sleep
    process: int | None = None
    """Who answered last, if the system tells."""

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        timeout_s: float = PATIENCE_S,
    ) -> tuple[int, Document]:
        """The status and the document. Raises NotThere, NoAnswer, and Refusal if it may not ask."""
        connection = _Connection(self.home.folder, timeout_s)
        data = None if body is None else orjson.dumps(body)
        try:
            connection.connect()
            self.process = sockets.listener_of(connection.sock)
            connection.request(method, path, data, {"Content-Type": JSON})
            response = connection.getresponse()
            return response.status, orjson.loads(response.read())
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotThere from None
        except PermissionError:
            where = sockets.path(self.home.folder)
            raise Refusal(f"{where} is of another user", "ask as who runs the job", 3) from None
        except sockets.TooLong as error:
            raise Refusal(f"{error.filename}: {error.strerror}", "move the home", 3) from None
        except ConnectionError as error:
            raise Closed(str(error)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from None
        finally:
            connection.close()

    def job(self, timeout_s: float = PATIENCE_S) -> Document:
        """What the job is and does. Raises NotThere, NoAnswer."""
        status, said = self.ask("GET", "/v1/job", timeout_s=timeout_s)
        if status != 200:
            raise NoAnswer(f"it answers {status}")
        return said

    def reach(self, when_not: str) -> Document:
        """What the job says of itself, when it has begun; it is waited for if it is starting.

        Raises Refusal; `when_not` is what to do if it is not running.
        """
        waited_until = time.monotonic() + START_S
        while True:
            try:
                return self.job()
            except (NotThere, Closed):
                self._check_starting(when_not, late=time.monotonic() > waited_until)
            except NoAnswer as error:
                raise _unanswered(self.home.name, error) from None
            self.pause(PAUSE_S)

    def accepted(self, path: str, body: Mapping[str, object]) -> Document:
        """The operation that was begun. Raises Refusal."""
        try:
            status, said = self.ask("POST", path, body)
        except (NotThere, Closed):
            raise Refusal(f"{self.home.name} has just ended", status=3) from None
        except NoAnswer as error:
            raise _unanswered(self.home.name, error) from None
        except KeyboardInterrupt:
            message = f"nobody knows whether {self.home.name} has heard what was asked of it"
            raise Refusal(message, "headrace jobs shows the job", 130) from None
        if status == 202:
            return said
        why = said["error"]
        message = f"{self.home.name}: {why['message']}"
        raise Refusal(message, why["hint"], STATUSES.get(status, 1))

    def _check_starting(self, when_not: str, *, late: bool) -> None:
        try:
            held, holder = self.home.holder()
        except SnapshotError as error:
            raise Refusal(error.message, error.hint, 3) from None
        if not held and (late or not self.is_new):
            raise Refusal(f"{self.home.name} is not running", when_not, 3)
        if late:
            message = (
                f"{self.home.name} is starting, or about to end: it cannot be asked ({holder})"
            )
            raise Refusal(message, "ask again later", 3)


def client_of(job: str, root: str, pause: Pause = time.sleep) -> Client:
    """Of the job that is meant; its home is waited for, since a first run may be starting.

    Raises Refusal.
    """
    until = time.monotonic() + NAME_S
    is_new = False
    while True:
        try:
            home = home_of(job, root)
            return Client(home, is_new or not is_home(home), pause)
        except NoSuchJob:
            if time.monotonic() > until:
                raise
        is_new = True
        pause(PAUSE_S)


def _unanswered(name: str, error: NoAnswer) -> Refusal:
    why = "in time" if str(error) == "timed out" else f": {error}"
    hint = "it may be held by a function that takes long; try again"
    return Refusal(f"{name} has not answered{'' if why[0] == ':' else ' '}{why}", hint, 1)
