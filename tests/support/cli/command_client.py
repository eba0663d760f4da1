"""A request for a command in a forked process, see `command_server`; as a script, the command.

The script starts fast because it imports little. It ends as the command does, which outlives it
when it is killed.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence


def request_process(
    address: str, request: Mapping[str, object], streams: Sequence[int]
) -> socket.socket:
    """Request a process from the server at an address; return the connection with its answers.

    They are two lines: the number of the process, and its status as `waitpid` has it.
    """
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    text = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(server, [text], streams)
    if sent < len(text):  # otherwise the command may have ended already, and its connection
        server.sendall(text[sent:])
    return server


def main(address: str, *arguments: str) -> int:
    """Run a command in the folder, the environment and with the streams of this process."""
    request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with request_process(address, request, (0, 1, 2)) as server, server.makefile() as answers:
        answers.readline()
        status = os.waitstatus_to_exitcode(int(answers.readline()))
    return 128 - status if status < 0 else status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
