"""Client of a running job, for commands: returns its answer, or raises why there is none."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import orjson

from headrace.cli.control import job_socket
from headrace.cli.control.event_parser import parse_events
from headrace.cli.control.http_messages import JSON_TYPE
from headrace.cli.control.job_lookup import (
    NoSuchJob,
    describe_job_list,
    find_home,
    format_command,
    is_home,
)
from headrace.cli.errors import Refusal
from headrace.core.api.snapshots import SnapshotError
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home import Home
from headrace.state.storage.regular_files import IrregularFile

Document: TypeAlias = "dict[str, Any]"
Sleep: TypeAlias = Callable[[float], None]

ANSWER_TIMEOUT_S = 20.0
"""The time that a job may take to answer; a user function may block its loop."""

SILENCE_TIMEOUT_S = 60.0
"""The time that a stream may be silent; a job sends a comment in 15 seconds."""

CONNECT_TIMEOUT_S = 2.0

START_TIMEOUT_S = 5.0
"""The time to wait for a job that is starting."""

HOME_TIMEOUT_S = 1.5
"""The time to wait for the home of an unknown name, which may be mistyped."""

PAUSE_S = 0.05

EXIT_STATUSES = {400: 2, 404: 2, 405: 2, 409: 3, 412: 3, 413: 2, 415: 2, 422: 2}
"""Exit statuses of rejected requests by HTTP status; 1 for all others."""


class NotListening(Exception):
    """No process listens in this home."""


class NoAnswer(Exception):
    """A process listens, but has not answered completely."""


class ConnectionClosed(NoAnswer):
    """The connection was closed: the process may be about to end."""


class _Connection(http.client.HTTPConnection):
    """An HTTP connection over the socket of a home."""

    def __init__(self, folder: str, timeout_s: float) -> None:
        super().__init__("job", timeout=timeout_s)
        self.folder = folder
        self.timeout_s = timeout_s

    def connect(self) -> None:
        """Connect to the job."""
        self.sock = job_socket.connect_to_job(self.folder, self.timeout_s)


@dataclass(slots=True)
class JobClient:
    """The client of one home's job."""

    home: Home
    is_new_home: bool = False
    """Whether the home did not exist at first: the job's first run may be starting."""
    sleep: Sleep = time.sleep
    process_id: int | None = None
    """The process that answered last, if the system knows it."""

    def send_request(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None = None,
        timeout_s: float = ANSWER_TIMEOUT_S,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Document]:
        """Send a request; return the status and the document.

        Raises NotListening, NoAnswer, and Refusal if the socket cannot be used.
        """
        with self._open_answer(method, path, body, timeout_s, headers or {}) as response:
            return response.status, orjson.loads(response.read())

    def stream_events(
        self, path: str, body: Mapping[str, object]
    ) -> Iterator[tuple[str, Document]]:
        """Yield the kind and the data of each event of a stream, to its end. Raises Refusal."""
        try:
            with self._open_answer("POST", path, body, SILENCE_TIMEOUT_S, {}) as response:
                if response.status != 200:
                    raise build_refusal(
                        response.status, orjson.loads(response.read()), self.home.name
                    )
                yield from parse_events(response)
        except NotListening:
            raise Refusal(f"{self.home.name} has just ended", status=3) from None
        except ConnectionClosed:
            return
        except NoAnswer as error:
            raise _reject_unanswered(self.home, error) from None

    @contextmanager
    def _open_answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        timeout_s: float,
        headers: Mapping[str, str],
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request, and open its answer.

        Raises NotListening, NoAnswer, and Refusal, also for errors while the answer is read.
        """
        connection = _Connection(self.home.folder, timeout_s)
        data = None if body is None else orjson.dumps(body)
        try:
            connection.connect()
            self.process_id = job_socket.find_listener_process(connection.sock)
            connection.request(method, path, data, {"Content-Type": JSON_TYPE, **headers})
            yield connection.getresponse()
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotListening from None
        except PermissionError:
            where = job_socket.socket_path(self.home.folder)
            hint = "run the command as the user who runs the job"
            raise Refusal(f"{where} belongs to another user", hint, 3) from None
        except job_socket.SocketNameTooLong as error:
            raise Refusal(f"{error.filename}: {error.strerror}", "move the home", 3) from None
        except IrregularFile as error:
            where = job_socket.socket_path(self.home.folder)
            hint = "no command can reach the job: end its process, and start it again"
            raise Refusal(f"{where}: {error.strerror}", hint, 3) from None
        except ConnectionError as error:
            raise ConnectionClosed(str(error)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(str(error) or type(error).__name__) from None
        finally:
            connection.close()

    def connect(self) -> None:
        """Connect without a request, to learn the process. Raises NotListening, NoAnswer."""
        try:
            with job_socket.connect_to_job(self.home.folder, CONNECT_TIMEOUT_S) as connection:
                self.process_id = job_socket.find_listener_process(connection)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotListening from None
        except OSError as error:
            raise NoAnswer(str(error) or type(error).__name__) from None

    def fetch_job(self, timeout_s: float = ANSWER_TIMEOUT_S) -> Document:
        """Return the job's status and counts. Raises NotListening, NoAnswer."""
        status, document = self.send_request("GET", "/v1/job", timeout_s=timeout_s)
        if status != 200:
            raise NoAnswer(f"it answered with status {status}")
        return document

    def fetch_document(self, path: str) -> Document:
        """Return what a path of the API answers. Raises Refusal."""
        return self._send_to_running("GET", path, None, 200)

    def wait_for_job(self, make_hint: Callable[[], str]) -> Document:
        """Return the job's status and counts, waiting for a job that is starting.

        Raises Refusal; `make_hint` returns its hint if the job is not running.
        """
        waited_until = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self.fetch_job()
            except (NotListening, ConnectionClosed):
                self._check_starting(make_hint, late=time.monotonic() > waited_until)
            except NoAnswer as error:
                raise _reject_unanswered(self.home, error) from None
            self.sleep(PAUSE_S)

    def request_operation(self, path: str, body: Mapping[str, object]) -> Document:
        """Request an operation; return it once the job has accepted it. Raises Refusal."""
        try:
            return self._send_to_running("POST", path, body, 202)
        except KeyboardInterrupt:
            message = f"it is unknown whether {self.home.name} has received the request"
            raise Refusal(message, describe_job_list(self.home), 130) from None

    def _send_to_running(
        self, method: str, path: str, body: Mapping[str, object] | None, wanted: int
    ) -> Document:
        """Send a request to a job that ran a moment ago. Raises Refusal for any other status."""
        try:
            status, document = self.send_request(method, path, body)
        except (NotListening, ConnectionClosed):
            raise Refusal(f"{self.home.name} has just ended", status=3) from None
        except NoAnswer as error:
            raise _reject_unanswered(self.home, error) from None
        if status == wanted:
            return document
        raise build_refusal(status, document, self.home.name)

    def _check_starting(self, make_hint: Callable[[], str], *, late: bool) -> None:
        try:
            is_held, holder = self.home.find_holder()
        except SnapshotError as error:
            raise Refusal(error.message, error.hint, 3) from None
        if not is_held and (late or not self.is_new_home):
            raise Refusal(f"{self.home.name} is not running", make_hint(), 3)
        if late:
            message = f"{self.home.name} is starting or ending, and takes no requests ({holder})"
            raise Refusal(message, "try again later", 3)


def find_client(job: str, root: str, pause: Sleep = time.sleep) -> JobClient:
    """Return the client of a job, waiting for its home, since a first run may be starting.

    Raises Refusal.
    """
    until = time.monotonic() + HOME_TIMEOUT_S
    is_new = False
    while True:
        try:
            home = find_home(job, root)
            return JobClient(home, is_new or not is_home(home), pause)
        except NoSuchJob:
            if time.monotonic() > until:
                raise
        is_new = True
        pause(PAUSE_S)


def _reject_unanswered(home: Home, error: NoAnswer) -> Refusal:
    why = "in time" if str(error) == "timed out" else f": {error}"
    end = format_command("stop", home, "--now")
    hint = f"a slow user function may be blocking it; try again, or end it: {end}"
    return Refusal(f"{home.name} has not answered{'' if why[0] == ':' else ' '}{why}", hint, 1)


def build_refusal(status: int, document: Document, job: str = "") -> Refusal:
    """Return the error of an answer, for a command about a job."""
    why = document["error"]
    message = f"{job}: {why['message']}" if job else why["message"]
    return Refusal(message, why["hint"], EXIT_STATUSES.get(status, 1))
