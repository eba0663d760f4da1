"""The server of `headrace serve`: leads a home, from taking its lock to the end of its jobs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import field

from headrace.cli.control import job_socket
from headrace.cli.control.http_server import run_server
from headrace.cli.errors import Refusal
from headrace.cli.metrics.tcp_port import PortUnavailable, format_url, open_port
from headrace.cli.server.job_api import JobApi
from headrace.cli.server.pipeline_files import PipelineFiles
from headrace.cli.server.server_folder import ServerFolder
from headrace.cli.server.server_operations import wait_for_event
from headrace.cli.server.supervisor import Supervisor
from headrace.core.api.snapshots import SnapshotError, format_now
from headrace.core.types.lazy_dataclass import dataclass
from headrace.state.storage.home_lock import HomeLocked, hold_lock
from headrace.state.storage.local_disk import LocalDisk

LOCK_INTERVAL_S = 0.25
SCAN_INTERVAL_S = 2.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of `headrace serve`."""

    folder: str
    """The folder of the pipelines, absolute."""
    leave_jobs: bool
    watch: bool
    kept_history: int
    address: tuple[str, int] | None = None
    """The host and the port to listen on; None: only the owner's socket is served."""
    hosts: tuple[str, ...] = ()
    """The names of this host that requests may have, beside localhost and addresses."""
    new_token: bool = False
    read_only_token: bool = False
    otlp: str | None = None
    """The receiver of the metrics and traces of the jobs."""


@dataclass(slots=True)
class Server:
    """A server of one home."""

    options: ServeOptions
    files: ServerFolder
    report: Callable[[str], None]
    """Prints a line."""
    stop_requests: int = 0
    _stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    _supervisor: Supervisor | None = None

    async def run(self) -> None:
        """Lead the home when no other server does, until a signal. Raises Refusal."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as SIGHUP under nohup
                loop.add_signal_handler(number, self.request_stop)
        is_first = self.files.prepare()
        with ExitStack() as stack:
            if await self._take_lock(stack):
                await self._lead(is_first)

    def request_stop(self) -> None:
        """Request the end of the server; a second request ends its jobs at once."""
        self.stop_requests += 1
        self._stop_requested.set()
        if self.stop_requests > 1 and self._supervisor is not None:
            self._supervisor.signal_jobs()

    async def _take_lock(self, stack: ExitStack) -> bool:
        """Take the lock of the home, waiting for it; False if a stop was requested first."""
        is_waiting = False
        while not self._stop_requested.is_set():
            try:
                stack.enter_context(hold_lock(LocalDisk(), self.files.lock, format_now()))
                return True
            except HomeLocked as error:
                if not is_waiting:
                    holder = error.holder or "another server"
                    self.report(f"waits, since {holder}, leads {self.files.home}")
                is_waiting = True
            except SnapshotError as error:
                raise Refusal(error.message, error.hint, 3) from None
            await wait_for_event(self._stop_requested, LOCK_INTERVAL_S)
        return False

    async def _lead(self, is_first: bool) -> None:
        options = self.options
        supervisor = Supervisor(self.files, self.report, options.kept_history, options.otlp)
        pipelines = PipelineFiles(self.options.folder, self.files)
        self._supervisor = supervisor
        api = JobApi(self.files, supervisor, pipelines, report_bug=self.report_bug)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(_listen(api, self.files, self.report_bug))
            if self.options.address is not None:
                await stack.enter_async_context(self._listen_tcp(api, self.options.address))
                sampling = asyncio.create_task(api.timelines.watch())
                stack.callback(sampling.cancel)
            await supervisor.resume()
            api.resume_upgrades()
            self.report(f"leads {self.files.home}")
            await self._watch_folder(supervisor, pipelines, is_first)
            await self._end_jobs(supervisor)
            await api.close()

    def report_bug(self, error: BaseException) -> None:
        """Report a bug in headrace; the server goes on."""
        self.report(f"a bug in headrace, please report it: {type(error).__name__}: {error}")

    @asynccontextmanager
    async def _listen_tcp(self, api: JobApi, address: tuple[str, int]) -> AsyncIterator[None]:
        """Serve over TCP, and print the URLs with their tokens. Raises Refusal."""
        from headrace.cli.server import tcp_server
        from headrace.cli.server.access_tokens import load_tokens

        host, port = address
        try:
            listener = open_port(port, host)
        except PortUnavailable as error:
            raise Refusal(error.message, error.hint) from None
        options = self.options
        tokens = load_tokens(self.files, renew=options.new_token, read_only=options.read_only_token)
        server = tcp_server.TcpServer(
            api.build_routes(),
            tokens,
            (host, *options.hosts),
            tcp_server.load_page(),
            tcp_server.open_access_log(self.files.access_log),
            self.report_bug,
        )
        url = format_url(listener)
        async with tcp_server.run_tcp_server(server, listener):
            self.report(f"serves {url}/#token={tokens.owner}")
            if tokens.viewer is not None:
                self.report(f"for viewers {url}/#token={tokens.viewer}")
            yield

    async def _watch_folder(
        self, supervisor: Supervisor, pipelines: PipelineFiles, is_first: bool
    ) -> None:
        """Look for new pipelines until a stop is requested; start them if they are to be."""
        starts = is_first or self.options.watch
        while not self._stop_requested.is_set():
            changed = await pipelines.update()
            self._start_new(supervisor, pipelines, changed if starts else [])
            starts = self.options.watch
            await wait_for_event(self._stop_requested, SCAN_INTERVAL_S)

    def _start_new(
        self, supervisor: Supervisor, pipelines: PipelineFiles, changed: list[str]
    ) -> None:
        known = [job.record.file for job in supervisor.jobs.values()]
        for found in pipelines.list_new(known):
            file, name = found["file"], found["name"]
            if file not in changed or self._stop_requested.is_set():
                continue
            if not found["is_valid"]:
                for problem in found["problems"]:
                    self.report(problem["text"])
            elif name in supervisor.jobs:
                other = supervisor.jobs[name].record.file
                self.report(f"{file}: not started, since {name} is the job of {other}")
            else:
                try:
                    with open(file, encoding="utf-8", newline="") as opened:
                        job = supervisor.add(name, file, opened.read())
                    supervisor.request_start(job)
                except OSError as error:
                    self.report(f"{file}: not started: {error.strerror or error}")

    async def _end_jobs(self, supervisor: Supervisor) -> None:
        supervisor.is_ending = True
        running = [job for job in supervisor.jobs.values() if job.process is not None]
        if self.options.leave_jobs:
            self.report(f"ends, and leaves {len(running)} running")
        else:
            supervisor.signal_jobs()
            await supervisor.wait_until_ended()
        supervisor.close()


@asynccontextmanager
async def _listen(
    api: JobApi, folder: ServerFolder, report_bug: Callable[[BaseException], None]
) -> AsyncIterator[None]:
    """Serve the owner's socket. Raises Refusal."""
    try:
        listener = job_socket.open_listener(folder.path)
        with listener as opened:
            async with run_server(api.build_routes(), opened, report_bug):
                yield
    except OSError as error:
        path = job_socket.socket_path(folder.path)
        raise Refusal(f"{path}: {error.strerror or error}", "move the folder", 3) from None


def serve(options: ServeOptions, home: str, report: Callable[[str], None]) -> None:
    """Serve until a signal. Raises Refusal."""
    server = Server(options, ServerFolder(os.path.abspath(home)), report)
    asyncio.run(server.run())
