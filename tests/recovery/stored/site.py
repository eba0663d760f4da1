"""The input of the stored jobs, and what their output comes to.

Only the language of pipelines, the command line and the files that are written are used here: a
commit of any age can write the fixtures, and resume from them.
"""

from __future__ import annotations

import gzip
import json
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

HERE = Path(__file__).parent
PIPELINES = HERE / "pipelines"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 40
"""The number of rows of a source in each phase."""
SLOW_ROWS = 1_000

Row: TypeAlias = "dict[str, Any]"
Final: TypeAlias = "dict[str, list[Row]]"
"""By sink: the rows, or what changes come to, in one order."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A pipeline: which sources come in which order, and which sinks have changes, by what key."""

    name: str
    before: tuple[tuple[str, ...], ...]
    """What is read, one after the other, before the job is stopped.

    A new file, as `source/phase`, or a number of computed rows, as `source=rows`.
    """
    after: tuple[str, ...]
    """What is read when it is resumed."""
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sums: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)
    """Sinks whose rows may be cut otherwise: a key, and the columns that are added up."""
    unsteady: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that depend on how rows come."""
    at_once: tuple[str, ...] = ()
    """What is overridden where nothing is to be stopped."""
    described_otherwise: frozenset[str] = frozenset()
    """Steps that a later version describes in other texts of the same meaning, or whose state it
    lays out otherwise."""

    @property
    def sources(self) -> set[str]:
        """Those that read files."""
        return {each.split("/")[0] for phase in self.before for each in phase if "/" in each}

    @property
    def waits(self) -> tuple[str, ...]:
        """What is overridden so that a run waits for more files, and shows what goes wrong."""
        watched = (f"sources.{name}.files.watch=20ms" for name in sorted(self.sources))
        return ("settings.restart.strategy=none", *watched)


WINDOW = ("window_start", "window_end")
K, G = ("k",), ("g",)
STORED = (
    Stored(
        "windows",
        (("orders/0",), ("orders/1",)),
        ("orders/2",),
        {
            **dict.fromkeys(("early", "early_by_rows", "corrected", "clocked"), (*K, *WINDOW)),
            "triggered": (*K, *WINDOW),
            "global_by_rows": K,
            **dict.fromkeys(("visits_late", "early_sessions"), (*G, *WINDOW)),
        },
        {"forgetting": ((*K, *WINDOW), ("n", "s"))},
    ),
    Stored(
        "triggers",
        (("orders/0",), ("orders/1",)),
        ("orders/2",),
        {
            **dict.fromkeys(("reminded", "awaited"), (*K, *WINDOW)),
            "reminded_sessions": (*G, *WINDOW),
        },
        {
            "reminded_forgetting": ((*K, *WINDOW), ("n", "s")),
            **dict.fromkeys(
                ("forgetting_sessions", "reminded_forgetting_sessions"), (G, ("n", "s"))
            ),
        },
    ),
    Stored(
        "changes",
        (("orders/0",), ("orders/1",)),
        ("orders/2",),
        {
            **dict.fromkeys(("totals", "doubled"), K),
            **dict.fromkeys(("some", "kept_long", "kept_by_clock", "forgotten", "lasts"), G),
            **dict.fromkeys(("of_totals", "of_lasts"), ("odd",)),
            **dict.fromkeys(("best_groups", "dearest"), ("rank",)),
            "dearest_by_key": ("k", "rank"),
            "lasts_in_time": G,
        },
    ),
    Stored(
        "tables",
        (("orders/0",), ("orders/1",)),
        ("orders/2",),
        {
            **dict.fromkeys(("counted", "totals", "doubled"), K),
            "some": ("third",),
            "all": (),
            "best": ("k", "rank"),
        },
        described_otherwise=frozenset({"totals", "doubled", "some", "all", "best"}),
    ),
    Stored("statistics", (("orders/0",), ("orders/1",)), ("orders/2",), {"totals": K}),
    Stored(
        "joins",
        (("rules=6", "orders=30", "others=30"), ("orders=60", "others=60")),
        ("orders=120", "others=120"),
        {"both": ("k", "other")},
        at_once=("sources.orders.generate.rate=1000/s", "sources.others.generate.rate=1000/s"),
    ),
    Stored(
        "calls",
        (("orders=30", "others=30"), ("orders=60", "others=60")),
        ("orders=120", "others=120"),
        {
            **dict.fromkeys(("some", "kept"), G),
            **dict.fromkeys(("totals", "of_mine"), ("text",)),
            "texts_of_lasts": ("odd",),
            **dict.fromkeys(("some_of_lasts", "filtered_lasts"), ("third",)),
            "dearest": ("rank",),
            "corrected": (*K, *WINDOW),
            "both": K,
        },
        at_once=("sources.orders.generate.rate=1000/s", "sources.others.generate.rate=1000/s"),
        described_otherwise=frozenset(
            "texts_of_lasts some_of_lasts filtered_lasts totals some kept windows slid sessions "
            "corrected near tumbled both of_mine".split()
        ),
    ),
    Stored(
        "process",
        (("rules=6", "orders=30", "others=30"), ("orders=60", "others=60")),
        ("orders=120", "others=120"),
        sums={"limited_at_once": (G, ("id", "over"))},
        unsteady={"arrived": ("at",)},
        at_once=("sources.orders.generate.rate=1000/s", "sources.others.generate.rate=1000/s"),
    ),
    Stored(
        "ends",
        (
            ("orders/0", "more/0", "packed/0", "lines/0", "made=100", "bids=100"),
            ("orders/1", "more/1", "packed/1", "lines/1", "made=300", "bids=300"),
            ("slow/0",),
        ),
        ("orders/2", "more/2", "packed/2", "lines/2", "slow/1", "made=4000", "bids=3680"),
        {
            **dict.fromkeys(("totals", "made", "slow_totals"), K),
            "bids": ("auction",),
            "words": ("value",),
        },
        at_once=("sources.made.generate.rate=10000000/s", "sources.bids.nexmark.rate=10000000/s"),
    ),
)
BY_NAME = {each.name: each for each in STORED}


def lay_out(folder: Path, stored: Stored) -> None:
    """Writes the pipeline and its code, and folders for its input."""
    shutil.copy(PIPELINES / f"{stored.name}.yaml", folder)
    for code in PIPELINES.glob("*.py"):
        shutil.copy(code, folder)
    for source in stored.sources:
        (folder / "in" / source).mkdir(parents=True, exist_ok=True)
    (folder / "in").mkdir(exist_ok=True)
    names = "".join(f"{k},{name}\n" for k, name in (("a", "anna"), ("b", "bert")))
    (folder / "in" / "names.csv").write_text(f"k,name\n{names}")


def feed(folder: Path, what: str, rows: Counter[str]) -> None:
    """Writes a file of a source, unless its rows are computed; counts its good rows."""
    if "=" in what:
        source, many = what.split("=")
        rows[source] = int(many)
        return
    source, phase = what.split("/")
    rows[source] += _written(folder, source, phase)


def _written(folder: Path, source: str, phase: str) -> int:
    data, suffix, many = WRITERS[source](int(phase))
    path = folder / "in" / source / f"{phase}.{suffix}"
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(data)
    hidden.rename(path)
    return many


Written: TypeAlias = "tuple[bytes, str, int]"


def _orders(phase: int) -> Written:
    return _lines([order(id) for id in range(phase * ROWS, (phase + 1) * ROWS)])


def order(id: int) -> Row:
    """An order: the first of a phase is late, the second too late, others at most 3 s."""
    late_s = id % 4
    if id >= ROWS and id % ROWS < 2:
        late_s = 45 if id % ROWS == 0 else 3600
    return {
        "id": id,
        "k": "abc"[id * 7 // 3 % 3] if id % 11 else None,
        "g": id * id % 11 + 3 * (id // 30),
        "price": None if id % 13 == 5 else id * 37 % 97 + 0.25 * (id % 4),
        "x": None if id % 9 == 2 else id * 17 % 23 / 4,
        "at": _at(2 * id - late_s),
    }


def _more(phase: int) -> Written:
    ids = range(phase * ROWS, (phase + 1) * ROWS)
    lines = ["id,k,price", *(f"{id},{'xyz'[id % 3]},{id / 8}" for id in ids), f"bad,{phase},row"]
    text = "".join(f"{line}\n" for line in lines).encode()
    return (gzip.compress(text, mtime=0), "csv.gz", ROWS) if phase == 2 else (text, "csv", ROWS)


def _packed(phase: int) -> Written:
    ids = range(1000 + phase * ROWS, 1000 + (phase + 1) * ROWS)
    columns = {"id": [*ids], "k": ["xyz"[id % 3] for id in ids], "price": [id / 4 for id in ids]}
    frame = pl.DataFrame(columns, {"id": pl.Int64(), "k": pl.String(), "price": pl.Float64()})
    path = HERE / ".packed"
    try:
        frame.write_parquet(path)
        return path.read_bytes(), "parquet", ROWS
    finally:
        path.unlink(missing_ok=True)


def _texts(phase: int) -> Written:
    words = [f"word {at % 7}" for at in range(phase, phase + ROWS)]
    return "".join(f"{word}\n" for word in words).encode(), "txt", ROWS


def _slow(phase: int) -> Written:
    """Lines that are long, so that a file is read in several pieces."""
    ids = range(phase * SLOW_ROWS, (phase + 1) * SLOW_ROWS)
    return _lines([{"id": id, "k": "pq"[id % 2], "pad": "x" * 4_000} for id in ids])


WRITERS: Mapping[str, Callable[[int], Written]] = {
    "orders": _orders,
    "more": _more,
    "packed": _packed,
    "lines": _texts,
    "slow": _slow,
}


def _lines(rows: list[Row]) -> Written:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode(), "jsonl", len(rows)


def _at(second: int) -> str:
    return (BEGIN + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")


def newest(folder: Path, stored: Stored) -> Any:
    """The newest manifest in the job's home."""
    place = folder / ".headrace" / stored.name / "checkpoints" / "manifests"
    numbers = sorted(int(path.stem) for path in place.glob("*.json"))
    while numbers:
        try:
            return json.loads((place / f"{numbers.pop()}.json").read_bytes())
        except FileNotFoundError:
            continue
    return None


def has_read(manifest: Any, rows: Mapping[str, int]) -> bool:
    """Whether a checkpoint has read that many rows of each source."""
    read = manifest["counts"]["parts"] if manifest else {}
    return all(read.get(source, [0, 0])[1] >= many for source, many in rows.items())


def drain(folder: Path, stored: Stored) -> None:
    """Ask the run for its end, by HTTP on its socket, without waiting for that."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / ".headrace" / stored.name / "control.sock"))
        body = b'{"drain": true}'
        head = f"POST /v1/stop HTTP/1.1\r\nHost: job\r\nContent-Length: {len(body)}\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        answer = connection.recv(4096)
    assert b" 202 " in answer.splitlines()[0], answer


def parts(folder: Path) -> set[Path]:
    """The visible parts of all sinks."""
    found = (folder / "out").rglob("*")
    return {p for p in found if p.is_file() and not p.name.startswith(".")}


def final(folder: Path, stored: Stored, before: Iterable[Path] = ()) -> Final:
    """What the output comes to; the parts of `before` were written before all others."""
    first, sinks = {*before}, sorted(path.name for path in (folder / "out").iterdir())
    result: Final = {}
    for sink in sinks:
        mine = [path for path in parts(folder) if path.is_relative_to(folder / "out" / sink)]
        mine.sort(key=lambda path: (path not in first, *_number(path)))
        rows = [row for path in mine for row in _read(path)]
        result[sink] = sorted(_come_to(stored, sink, rows), key=repr)
    return result


def _come_to(stored: Stored, sink: str, rows: list[Row]) -> list[Row]:
    if sink in stored.keys:
        table: dict[str, Row] = {}
        for row in rows:
            deleted = row.pop("_delete", False)
            key = repr([row[name] for name in stored.keys[sink]])
            table.pop(key, None)
            if not deleted:
                table[key] = row
        return [*table.values()]
    if sink in stored.sums:
        key_of, summed = stored.sums[sink]
        totals: dict[str, Row] = {}
        for row in rows:
            key = repr([row[name] for name in key_of])
            before = totals.get(key, dict.fromkeys(summed, 0))
            totals[key] = row | {name: before[name] + row[name] for name in summed}
        return [*totals.values()]
    unsteady = ("at",) if rows and "error" in rows[0] else stored.unsteady.get(sink, ())
    return [{name: row[name] for name in row if name not in unsteady} for row in rows]


def _number(path: Path) -> tuple[int, str]:
    """The order in which one subtask has written its parts."""
    _, _, subtask, sequence = path.name.partition(".")[0].split("-")
    return int(sequence), subtask


def _read(path: Path) -> Iterator[Row]:
    if path.suffix == ".parquet":
        yield from pl.read_parquet(path).to_dicts()
        return
    if ".csv" in path.suffixes:
        yield from pl.read_csv(path).to_dicts()
        return
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    told = dict([path.parent.name.split("=")]) if "=" in path.parent.name else {}
    yield from (json.loads(line) | told for line in data.splitlines())
