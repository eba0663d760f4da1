"""The names of a sink's files, which no other module parses or builds.

    part    = "part-" job "-" subtask "-" sequence suffix
    hidden  = ".inprogress-" part ".tmp"
    folder  = (column "=" value "/")*
    value   = "__HIVE_DEFAULT_PARTITION__" | "__EMPTY_PARTITION__" | text

A part is hidden from Spark by its dot, and from DuckDB and Polars, to whom a dot means nothing, by
how its name ends: `out/*.jsonl` does not match it.

`job` is the first 8 hexadecimal digits of the job's id. `sequence` rises above all numbers that
the job has ever used in the folder, so that a name is never used twice:
`part-1f3c09a2-0-17.jsonl.gz`.

Different values have different folders. Text is escaped as Hive and Spark do, and null has their
name. The empty text has a name of ours: Spark gives it the name of null, and refuses to read a
folder `column=`. A text that is one of the two names has its first character escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import unquote

from headrace.core.types.lazy_dataclass import dataclass
from headrace.core.types.lazy_pattern import compile_pattern

HIDDEN_PREFIX, HIDDEN_SUFFIX = ".inprogress-", ".tmp"
NULL_VALUE, EMPTY_VALUE = "__HIVE_DEFAULT_PARTITION__", "__EMPTY_PARTITION__"
FORMAT_SUFFIXES = {"json": ".jsonl", "csv": ".csv", "parquet": ".parquet", "raw": ".txt"}
"""The suffix of part names by format."""

_PART = compile_pattern(r"part-([0-9a-f]{8})-(\d+)-(\d+)(\.[a-z.]+)")
_ESCAPED_CHARACTERS = compile_pattern(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")


@dataclass(frozen=True, slots=True)
class PartName:
    """The components of a part's name."""

    job: str
    subtask: int
    sequence: int
    suffix: str

    def __str__(self) -> str:
        return f"part-{self.job}-{self.subtask}-{self.sequence}{self.suffix}"


def get_reading_order(path: str) -> tuple[str, int, int]:
    """Return the sort key of a file: its name, in which the sequence of a part is a number.

    The sequence of a job's parts rises also after a rescale, so it comes before the subtask.

    >>> sorted(["part-1f3c09a2-0-10.csv", "part-1f3c09a2-1-9.csv", "a"], key=get_reading_order)
    ['a', 'part-1f3c09a2-1-9.csv', 'part-1f3c09a2-0-10.csv']
    """
    folder, name = os.path.split(path)
    part = parse_part_name(name)
    if part is None:
        return path, 0, 0
    return os.path.join(folder, f"part-{part.job}"), part.sequence, part.subtask


def parse_part_name(name: str) -> PartName | None:
    """Parse the name of a part, hidden or not; None if it is no part.

    >>> parse_part_name(".inprogress-part-1f3c09a2-0-17.jsonl.gz.tmp")
    PartName(job='1f3c09a2', subtask=0, sequence=17, suffix='.jsonl.gz')
    """
    if name.startswith(HIDDEN_PREFIX):
        name = name.removeprefix(HIDDEN_PREFIX).removesuffix(HIDDEN_SUFFIX)
    found = _PART.fullmatch(name)
    return PartName(found[1], int(found[2]), int(found[3]), found[4]) if found else None


def format_hidden_path(path: str) -> str:
    """Return the path of a part before its commit.

    >>> format_hidden_path("day=1/part-1f3c09a2-0-17.jsonl")
    'day=1/.inprogress-part-1f3c09a2-0-17.jsonl.tmp'
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{HIDDEN_PREFIX}{name}{HIDDEN_SUFFIX}")


def format_folder(column: str, value: str | None) -> str:
    """Return the name of the folder for rows with that value.

    >>> format_folder("day", "2026-01-31 08:00"), format_folder("k", None)
    ('day=2026-01-31 08%3A00', 'k=__HIVE_DEFAULT_PARTITION__')
    >>> format_folder("k", ""), format_folder("k", "__HIVE_DEFAULT_PARTITION__")
    ('k=__EMPTY_PARTITION__', 'k=%5F_HIVE_DEFAULT_PARTITION__')
    """
    return f"{escape_name(column)}={_format_value(value)}"


def _format_value(value: str | None) -> str:
    if value is None:
        return NULL_VALUE
    if value in (NULL_VALUE, EMPTY_VALUE):
        return f"%{ord(value[0]):02X}{value[1:]}"
    return escape_name(value) or EMPTY_VALUE


def parse_folder(name: str) -> tuple[str, str | None] | None:
    """Return the column and the value in the name of a folder; None if it has none.

    >>> parse_folder("day=2026-01-31 08%3A00"), parse_folder("k=__HIVE_DEFAULT_PARTITION__")
    (('day', '2026-01-31 08:00'), ('k', None))
    >>> parse_folder("k=__EMPTY_PARTITION__"), parse_folder("in")
    (('k', ''), None)
    """
    column, sign, value = name.partition("=")
    if not sign or not column:
        return None
    if value == NULL_VALUE:
        return unquote(column), None
    return unquote(column), "" if value == EMPTY_VALUE else unquote(value)


def escape_name(text: str) -> str:
    """Escape a column or a value for the name of a folder."""
    return _ESCAPED_CHARACTERS.sub(lambda found: f"%{ord(found[0]):02X}", text)


def list_output(folder: str) -> Iterator[str]:
    """Yield the parts in a folder and its `name=value` folders, hidden ones too, of any run.

    Spark also names its files `part-...`, so they count as output.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if "=" in entry.name:
                    below = list_output(entry.path)
                    yield from (os.path.join(entry.name, name) for name in below)
            elif entry.name.startswith(("part-", f"{HIDDEN_PREFIX}part-")):
                yield entry.name


def is_hidden(path: str) -> bool:
    """Whether a part has its hidden name, so is not committed."""
    return os.path.basename(path).startswith(HIDDEN_PREFIX)


def parse_job_part(path: str, job: str) -> PartName | None:
    """Parse the path of a part; None if it is not one of that job."""
    part = parse_part_name(os.path.basename(path))
    return part if part and part.job == job else None
