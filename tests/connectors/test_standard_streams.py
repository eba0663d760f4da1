"""Standard input and output: lines as they come, blocks under load, pipes that close."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import polars as pl
import pytest

from headrace.connectors.memory import InMemoryData
from headrace.connectors.stdin import StdinSplitReader
from headrace.core.api.failures import ConnectorError
from headrace.core.api.kernel_executor import KernelExecutor
from headrace.core.api.run_context import RunContext
from headrace.core.api.sources import Chunk, SplitFinished, SplitReader
from headrace.core.api.splits import Split
from headrace.core.plan import nodes
from tests.support.cli.command_process import start_headrace
from tests.support.file_pipelines import JOB, connectors_of, run
from tests.support.runtime.memory_pipelines import plan_of

SPLIT = Split("s", "stdin")
JSON = "{stdin: {}, schema: {id: bigint}}"
CSV = "{stdin: {}, format: csv, schema: {id: bigint}}"


def stdin_of(
    folder: Path,
    text: str,
    descriptor: int,
    *,
    block: int = 4096,
    limit: int | None = None,
    settings: str = "{max_record: 256MB}",
) -> SplitReader:
    """Build a source that reads a descriptor as standard input is read."""
    plan = plan_of(
        folder,
        f"settings: {settings}\nsources:\n  s: {text}\nsinks:\n  o: {{from: s, console: }}",
        connectors_of(),
    )
    node = plan.part("s")
    assert isinstance(node, nodes.Source)
    surroundings = RunContext(folder, JOB, KernelExecutor(), limit)
    reading = StdinSplitReader(node, surroundings, descriptor, block)
    reading.assign([(SPLIT, None)], last=True)
    return reading


async def all_of(reading: SplitReader) -> list[Chunk]:
    """Every chunk to the end."""
    found = []
    while isinstance(arrival := await reading.fetch(), Chunk):
        found.append(arrival)
    assert (arrival, await reading.fetch()) == (SplitFinished(SPLIT), None)
    await reading.close()
    return found


def ids(chunks: list[Chunk]) -> list[int]:
    return [id for chunk in chunks for (id,) in chunk.frame.rows()]


def lines(first: int, count: int) -> bytes:
    return b"".join(b'{"id": %d}\n' % number for number in range(first, first + count))


@pytest.fixture
def pipe() -> Iterator[tuple[int, FileIO]]:
    """The end to read from, and the one to write to, which a test may close."""
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0), open(writing, "wb", buffering=0) as end:
        yield reading, end


def test_a_line_that_arrives_alone_is_handed_on_at_once(
    tmp_path: Path, pipe: tuple[int, FileIO]
) -> None:
    async def work() -> None:
        reading = stdin_of(tmp_path, JSON, pipe[0])
        position = 0
        for number in range(5):
            line = lines(number, 1)
            pipe[1].write(line[:4])
            waiting = asyncio.ensure_future(reading.fetch())
            pipe[1].write(line[4:])
            chunk = await waiting
            assert isinstance(chunk, Chunk)
            position += len(line)
            assert (ids([chunk]), chunk.position) == ([number], position)
        await reading.close()

    asyncio.run(work())


@pytest.mark.parametrize("piece", [1, 7, 100, 5000])
@pytest.mark.parametrize(("source", "head"), [(JSON, b""), (CSV, b"id\n")])
def test_every_record_is_read_once_however_it_comes(
    tmp_path: Path, pipe: tuple[int, FileIO], piece: int, source: str, head: bytes
) -> None:
    text = lines(0, 500) if source is JSON else b"".join(b"%d\n" % at for at in range(500))
    text = head + text.rstrip()

    def send() -> None:
        for at in range(0, len(text), piece):
            pipe[1].write(text[at : at + piece])
        pipe[1].close()

    sender = threading.Thread(target=send)
    sender.start()
    found = asyncio.run(all_of(stdin_of(tmp_path, source, pipe[0])))
    sender.join()
    assert ids(found) == list(range(500))
    assert found[-1].position == len(text)


@pytest.mark.parametrize("piece", [100, 2000])
@pytest.mark.parametrize("size", [1024, 1025])
@pytest.mark.parametrize("end", [b"", b"\n", b'\n{"id": 3}\n'])
def test_a_large_record_is_refused_however_it_comes(
    tmp_path: Path, pipe: tuple[int, FileIO], piece: int, size: int, end: bytes
) -> None:
    text = b'{"id": 1}\n' + b'{"id": 2}'.ljust(size) + end

    def send() -> None:
        for at in range(0, len(text), piece):
            pipe[1].write(text[at : at + piece])
        pipe[1].close()

    sender = threading.Thread(target=send)
    sender.start()
    reading = stdin_of(tmp_path, JSON, pipe[0], settings="{max_record: 1KB}")
    if size == 1024:
        assert ids(asyncio.run(all_of(reading)))[:2] == [1, 2]
    else:
        with pytest.raises(ConnectorError, match="longer than max_record") as raised:
            asyncio.run(all_of(reading))
        assert raised.value.position == 10
    sender.join()


def test_what_gathers_while_nobody_asks_is_one_block(
    tmp_path: Path, pipe: tuple[int, FileIO]
) -> None:
    async def work() -> list[int]:
        reading = stdin_of(tmp_path, JSON, pipe[0])
        pipe[1].write(lines(0, 1))
        sizes = []
        for _ in range(3):
            chunk = await reading.fetch()
            assert isinstance(chunk, Chunk)
            sizes.append(chunk.frame.height)
            for at in range(10):
                pipe[1].write(lines(at, 1))
                await asyncio.sleep(0)
        await reading.close()
        return sizes

    assert asyncio.run(work())[:2] == [1, 10]


@pytest.mark.parametrize("block", [16, 4096])
@pytest.mark.parametrize("limit", [None, 1, 30])
def test_a_file_can_be_standard_input(tmp_path: Path, block: int, limit: int | None) -> None:
    (tmp_path / "in.jsonl").write_bytes(lines(0, 50) + b"oops")
    descriptor = os.open(tmp_path / "in.jsonl", os.O_RDONLY)
    found = asyncio.run(all_of(stdin_of(tmp_path, JSON, descriptor, block=block, limit=limit)))
    os.close(descriptor)
    assert ids(found) == list(range(limit or 50))
    bad = [bad.raw for chunk in found for bad in chunk.bad_records]
    assert bad == ([] if limit else ["oops"])


def test_two_sources_cannot_read_it(tmp_path: Path) -> None:
    text = f"""
sources:
  s: {JSON}
  t: {CSV}
steps:
  u: {{from: [s, t]}}
sinks:
  o: {{from: u, console: }}
"""
    with pytest.raises(AssertionError, match='standard input is taken by the source "s"'):
        run(tmp_path, text)


def test_nothing_can_be_standard_input(tmp_path: Path) -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    assert asyncio.run(all_of(stdin_of(tmp_path, CSV, descriptor))) == []
    os.close(descriptor)


def test_waiting_for_input_can_be_given_up(tmp_path: Path, pipe: tuple[int, FileIO]) -> None:
    async def work() -> list[int]:
        reading = stdin_of(tmp_path, JSON, pipe[0])
        waiting = asyncio.ensure_future(reading.fetch())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        pipe[1].write(lines(7, 1))
        chunk = await reading.fetch()
        await reading.close()
        assert isinstance(chunk, Chunk)
        return ids([chunk])

    assert asyncio.run(work()) == [7]


def test_it_is_exhausted_while_nothing_comes(tmp_path: Path, pipe: tuple[int, FileIO]) -> None:
    async def work() -> None:
        reading = stdin_of(tmp_path, JSON, pipe[0])
        before = asyncio.get_running_loop().time()
        waiting = asyncio.ensure_future(reading.fetch())
        await asyncio.sleep(0)
        (since,) = reading.list_exhausted().values()
        assert before <= since <= asyncio.get_running_loop().time()
        pipe[1].write(lines(7, 1))
        await waiting
        assert reading.list_exhausted() == {}
        pipe[1].close()
        assert await reading.fetch() == SplitFinished(SPLIT)
        assert reading.list_exhausted() == {}
        await reading.close()

    asyncio.run(work())


def test_an_unreadable_descriptor_is_reported(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(ConnectorError, match="cannot read standard input: is a directory"):
        asyncio.run(all_of(stdin_of(tmp_path, JSON, descriptor)))
    os.close(descriptor)


COPY = """
settings: {parallelism: 3}
sources:
  s: {memory: {data: in}, schema: {id: bigint, name: string}}
sinks:
  o: {from: s, stdout: , format: %s}
"""


@pytest.mark.parametrize("format", ["json", "csv"])
def test_rows_go_out_whole_from_all_subtasks(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], format: str
) -> None:
    frame = pl.DataFrame({"id": range(3000), "name": ["ü" * 9] * 3000})
    memory = InMemoryData(
        inputs={"in": {f"{at}": [frame[at * 1000 : at * 1000 + 1000]] for at in range(3)}}
    )
    assert run(tmp_path, COPY % format, memory=memory).failure is None
    out = capfdbinary.readouterr().out
    if format == "csv":
        head, _, out = out.partition(b"\n")
        assert head == b"id,name"
    line = '{"id":%d,"name":"üüüüüüüüü"}\n' if format == "json" else "%d,üüüüüüüüü\n"
    assert sorted(out.splitlines(keepends=True)) == sorted(
        (line % at).encode() for at in range(3000)
    )


ENDLESS = """
name: endless
sources:
  s: {generate: {columns: {x: id}}}
sinks:
  o: {from: s, stdout: }
  f: {from: s, files: {path: out}}
"""


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """The command, its standard output and error in pipes."""
    (folder / "endless.yaml").write_text(ENDLESS)
    pipe = subprocess.PIPE
    command = ("run", "endless.yaml", *arguments)
    return start_headrace(*command, cwd=folder, stdout=pipe, stderr=pipe, stdin=pipe)


def test_a_reader_that_goes_away_ends_the_job_in_peace(tmp_path: Path) -> None:
    with start(tmp_path, "--quiet") as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b'{"x":0}\n'
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
    (part,) = (tmp_path / "out").iterdir()
    assert part.name.startswith("part-")
    assert part.read_text().startswith('{"x":0}\n')


def test_a_killed_run_leaves_nothing_that_is_seen(tmp_path: Path) -> None:
    out = tmp_path / "out"
    rolling = ("--set", "sinks.f.files.roll.rows=1000", "--set", "settings.checkpoint.every=1h")
    with start(tmp_path, *rolling) as process:
        assert process.stdout is not None
        while not (out.exists() and any(out.iterdir())):
            assert process.stdout.readline()
        process.kill()
    names = [file.name for file in out.iterdir()]
    assert all(name.startswith(".inprogress-part-") for name in names)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no full device here")
def test_a_full_standard_output_fails_the_job(tmp_path: Path) -> None:
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    with open("/dev/full", "wb") as full:
        process = start_headrace(
            "run", "endless.yaml", cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True
        )
    _, err = process.communicate()
    assert process.returncode == 1
    assert "cannot write to standard output: no space left on device" in err
    assert list((tmp_path / "out").iterdir()) == []
