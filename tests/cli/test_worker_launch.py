"""What the coordinator's process does before it starts workers."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """\
import resource
from headrace.cli.worker_launch import _allow_open_files
for soft, workers in ((128, 4), (128, 16), (128, 64), (1500, 16)):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, 2000))
    _allow_open_files(workers)
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_the_limit_of_open_files_is_raised_for_many_workers_as_far_as_it_can_be() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["304", "640", "2000", "1500"]
