"""The main coroutine of a worker process: it runs its part of one attempt after the other.

Messages are handled in order. The process ends when the connection to the coordinator does.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from headrace.core.api.failures import build_failure
from headrace.core.api.run_context import RunContext
from headrace.core.api.snapshots import SnapshotStore, find_blobs
from headrace.core.api.state import Document
from headrace.core.coordination.messages import (
    AttemptCancelled,
    Cancel,
    CoordinatorEvent,
    SnapshotAcknowledged,
    SubtaskFailed,
    SubtaskFinished,
)
from headrace.core.dataflow.channel import Channel, ChannelBounds, OutputChannel
from headrace.core.dataflow.operator_factory import OperatorContext
from headrace.core.errors import failpoints
from headrace.core.exchange.connection import Connection
from headrace.core.exchange.control_connection import ControlConnection
from headrace.core.exchange.peer_lost import PeerLost
from headrace.core.exchange.stream_end import StreamEnd
from headrace.core.plan import nodes
from headrace.core.plan.connector import Connectors
from headrace.core.processes.messages import (
    AttemptMessage,
    AttemptRejected,
    AttemptStarted,
    ConnectorReply,
    ConnectorRequest,
    SetTaps,
    StartAttempt,
    UserNotice,
    WorkerReady,
)
from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.worker.channels import ChannelEnds, ChannelKey, list_channels
from headrace.core.worker.connectors import WorkerConnectors, open_worker_connectors, share_lookups
from headrace.core.worker.pool import WorkerSpec, build_worker
from headrace.core.worker.report import WorkerIdentity, WorkerReport
from headrace.core.worker.worker import Worker

REPORT_INTERVAL_S = 1.0
"""The time between two reports of a worker that runs subtasks."""
LOST_PEER_GRACE_S = 5.0
"""The time in which the coordinator ends an attempt one of whose workers is gone."""


@dataclass(frozen=True, slots=True)
class WorkerEnvironment:
    """The plan, connectors and stores that a worker process uses in all attempts."""

    number: int
    build_plan: Callable[[Mapping[str, int]], nodes.Plan]
    """Returns the plan with these numbers of subtasks."""
    connectors: Connectors
    run_context: RunContext
    build_operator_context: Callable[[int, int], OperatorContext]
    """Returns the context of the operators of an attempt, by its number and that of its workers.

    The memory for state is divided among the workers.
    """
    bounds: ChannelBounds
    store: SnapshotStore | None
    discard_leftovers: Callable[[], None] = lambda: None
    """Removes the files that were kept for restores: called after each restore, and at the end."""


class WorkerServer:
    """Serves the coordinator over a control connection."""

    def __init__(self, control: ControlConnection, environment: WorkerEnvironment) -> None:
        notify = replace(environment.run_context, notify_user=self._notify_user)
        self._control = control
        self._environment = replace(environment, run_context=notify)
        self._attempt: AttemptShare | None = None
        self._commands: asyncio.Queue[tuple[AttemptMessage, Sequence[StreamEnd]]]
        self._commands = asyncio.Queue()

    async def serve(self) -> None:
        """Handle messages until the coordinator is gone.

        Replies to connectors come through at once: commands wait for what connectors do.
        """
        self._control.post(AttemptMessage(0, WorkerReady()))
        handling = asyncio.create_task(self._handle_commands())
        receiving = asyncio.create_task(self._receive())
        await asyncio.wait((handling, receiving), return_when=asyncio.FIRST_COMPLETED)
        handling.cancel()
        await asyncio.gather(handling, return_exceptions=True)
        self._environment.discard_leftovers()
        if receiving.done():
            receiving.result()
        else:
            handling.result()

    async def _receive(self) -> None:
        with suppress(PeerLost):
            while True:
                received = await self._control.receive()
                message = received.message
                assert isinstance(message, AttemptMessage)
                if not isinstance(message.message, ConnectorReply):
                    self._commands.put_nowait((message, received.ends))
                elif self._attempt is not None:
                    self._attempt.on_reply(message.message)

    async def _handle_commands(self) -> None:
        while True:
            await self._handle(*await self._commands.get())

    async def _handle(self, received: AttemptMessage, ends: Sequence[StreamEnd]) -> None:
        match received.message:
            case StartAttempt() as start:
                await self._end_attempt()
                self._attempt = AttemptShare(start, self._environment, self._control)
                await self._attempt.start(ends)
            case Cancel():
                await self._end_attempt()
                self._control.post(AttemptMessage(received.attempt, AttemptCancelled()))
            case message if self._attempt is not None:
                await self._attempt.receive(message)

    async def _end_attempt(self) -> None:
        if self._attempt is not None:
            await self._attempt.end()
            self._attempt = None

    def _notify_user(self, line: str) -> None:
        attempt = self._attempt.number if self._attempt else 0
        self._control.post(AttemptMessage(attempt, UserNotice(line)))


class AttemptShare:
    """The part of an attempt that runs in this process."""

    def __init__(
        self, command: StartAttempt, environment: WorkerEnvironment, control: ControlConnection
    ) -> None:
        self.number = command.attempt
        self._command = command
        self._environment = environment
        self._control = control
        self._worker: Worker | None = None
        self._connectors: WorkerConnectors | None = None
        self._peers: dict[int, Connection] = {}
        self._lost_peers: list[asyncio.TimerHandle] = []
        self._reporting: asyncio.Task[None] | None = None
        self._requests: dict[int, asyncio.Future[Document]] = {}
        self._request_numbers = itertools.count()
        self._acknowledged: tuple[int, int] = (0, 0)
        """The newest checkpoint that subtasks have acknowledged, and how many of them."""

    async def start(self, ends: Sequence[StreamEnd]) -> None:
        """Start the subtasks of this worker, and tell whether that was possible."""
        try:
            await self._start(ends)
        except Exception as error:
            self._send(AttemptRejected(as_sendable(error)))
        else:
            self._send(AttemptStarted())

    async def receive(self, command: object) -> None:
        """Handle a command."""
        if self._worker is not None and isinstance(command, SetTaps):
            self._worker.set_taps(command.requests)
        elif self._worker is not None:
            await self._worker.receive(command)  # type: ignore[arg-type]

    async def end(self) -> None:
        """End the subtasks, and release what they use."""
        if self._reporting is not None:
            self._reporting.cancel()
        for timer in self._lost_peers:
            timer.cancel()
        if self._worker is not None:
            await self._worker.cancel()
            self._send(self._report())
        for peer in self._peers.values():
            await peer.close()
        if self._connectors is not None:
            await self._connectors.close()

    async def _start(self, ends: Sequence[StreamEnd]) -> None:
        command, environment = self._command, self._environment
        plan = environment.build_plan(command.parallelism)
        self._peers = {
            number: Connection(
                end,
                peer=f"worker {number}",
                kernel_executor=environment.run_context.kernel_executor,
                on_lost=self._on_lost_peer,
            )
            for number, end in zip(command.peers, ends, strict=True)
        }
        self._connectors = open_worker_connectors(
            plan,
            environment.connectors,
            environment.run_context,
            command.descriptions,
            self._request,
            shares=share_lookups(plan, command.placement, environment.number),
        )
        if environment.store is not None:
            environment.store.adopt(find_blobs(command.deploy.restored.states))
        spec = WorkerSpec(
            plan,
            self.number,
            environment.connectors,
            environment.run_context,
            environment.build_operator_context(self.number, command.worker_count),
            environment.bounds,
            environment.store,
            command.is_aligned,
            command.migrated_steps,
            report_sample=self._send,
        )
        channels = self._open_channels(plan)
        self._worker = build_worker(spec, self._connectors, channels, self._send_event)
        await self._worker.receive(command.deploy)
        await environment.run_context.kernel_executor.run_blocking(environment.discard_leftovers)
        self._reporting = asyncio.create_task(self._send_reports())

    def _open_channels(self, plan: nodes.Plan) -> ChannelEnds:
        """Return this worker's ends of all channels; both ends of one may be here."""
        here, placement = self._environment.number, self._command.placement
        inputs: dict[ChannelKey, Channel] = {}
        outputs: dict[ChannelKey, OutputChannel] = {}
        for number, (key, writer, reader) in enumerate(list_channels(plan)):
            if placement[reader] == here:
                inputs[key] = Channel(self._environment.bounds)
            if placement[writer] == here:
                to = placement[reader]
                outputs[key] = inputs[key] if to == here else self._peers[to].open_sender(number)
            elif placement[reader] == here:
                self._peers[placement[writer]].open_receiver(number, inputs[key])
        return ChannelEnds(inputs, outputs)

    async def _request(self, part: str, document: Document) -> Document:
        """Have the coordinator's half of a connector answer. Raises its ConnectorError."""
        number = next(self._request_numbers)
        reply: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._requests[number] = reply
        self._send(ConnectorRequest(number, part, document))
        return await reply

    def on_reply(self, reply: ConnectorReply) -> None:
        """Pass the reply to the connector that has asked, if it still waits."""
        future = self._requests.pop(reply.number, None)
        if future is None or future.done():
            return
        if reply.error is not None:
            future.set_exception(reply.error)
        else:
            future.set_result(reply.document or {})

    def _send_event(self, event: CoordinatorEvent) -> None:
        """Send an event, after the report that goes with it."""
        assert self._worker is not None
        match event:
            case SubtaskFinished() | SubtaskFailed():
                self._send(self._report())
            case SnapshotAcknowledged(_, number, _):
                failpoints.failpoint("snapshot.acknowledging")
                newest, count = self._acknowledged
                self._acknowledged = number, count + 1 if number == newest else 1
                if self._acknowledged[1] == len(self._command.deploy.subtasks):
                    self._send(self._report())
        self._send(event)

    async def _send_reports(self) -> None:
        while True:
            await asyncio.sleep(REPORT_INTERVAL_S)
            self._send(self._report())

    def _report(self) -> WorkerReport:
        assert self._worker is not None
        identity = WorkerIdentity(self._environment.number, os.getpid())
        return replace(self._worker.collect_report(), worker=identity)

    def _on_lost_peer(self, error: PeerLost) -> None:
        """Fail the attempt. If the peer is gone, the coordinator does so first: it knows why.

        Without this, a reader might wait for ever for what has not arrived: a peer that has sent
        all that it had does not notice that the connection is lost.
        """
        delay_s = LOST_PEER_GRACE_S if error.is_gone else 0.0
        failure = SubtaskFailed(self._command.deploy.subtasks[0], build_failure(error, "workers"))
        loop = asyncio.get_running_loop()
        self._lost_peers.append(loop.call_later(delay_s, self._send, failure))

    def _send(self, message: object) -> None:
        self._control.post(AttemptMessage(self.number, message))


def as_sendable(error: Exception) -> Exception:
    """Return an error that can be sent to another process: the error itself where that is possible.

    Other errors are defects of headrace or of user code; their traceback is sent as text.
    """
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
