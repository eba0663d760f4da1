"""Stored documents as typed values, also where several threads are the first to need a type."""

import subprocess
import sys

# Each round has types that nobody has used yet; their annotations run Python, where threads switch.
THREADS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from headrace.core.api.stored_documents import convert_document

TYPES = '''
from __future__ import annotations
from typing import NotRequired, TypedDict

class Leaf(TypedDict):
    number: int | float | None
    name: NotRequired[str | None]

class Branch(TypedDict):
    leaves: dict[str, list[Leaf | None]]
    inner: list[Branch]

class Tree(TypedDict):
    branches: dict[str, Branch]
    other: Leaf | None
'''
DOCUMENT = {"branches": {"a": {"leaves": {"b": [{"number": 1}]}, "inner": []}}, "other": None}

sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as threads:
    for round in range(200):
        module = type(sys)(f"types_{round}")
        sys.modules[module.__name__] = module
        exec(TYPES, module.__dict__)
        got = threads.map(lambda _: convert_document(DOCUMENT, module.Tree), range(8))
        assert list(got) == [DOCUMENT] * 8
"""


def test_threads_may_be_the_first_to_need_a_type_together() -> None:
    ran = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
