"""Classes of two inputs whose columns are changed while their rows wait."""

from __future__ import annotations

import pytest

from tests.core.operators.joins.test_changed_joins import HEAD, Job, job

__all__ = ["job"]  # a fixture

CLASS = """
from headrace import Process, list_of, shared, value


class Heard(Process):
    heard = {}

    def {}(self, row, state{}) -> None:
        state.heard.append(f"{{row.k}} {{row.v}} {{getattr(row, 's', '-')}}")

    def {}(self, row, state, out) -> None:
        out(row.k, f"{{row.v}} {{getattr(row, 's', '-')}}", ", ".join(state.heard))
"""
KINDS = {
    "broadcast": (
        "from: mine, key: k, broadcast: {rules: theirs}",
        ('shared(list_of("string"))', "on_rule", "", "on_row"),
    ),
    "connect": (
        "key: k, connect: {left: mine, right: theirs}",
        ('list_of("string")', "on_right", ", out", "on_left"),
    ),
}
HEARD = "process: {python: heard.py:Heard, returns: {k: bigint, row: string, heard: string}}"


def pipeline(kind: str, select: str) -> str:
    """The step of such a class, after those that have these columns of the inputs."""
    before = "".join(
        f"  {name}: {{from: {of}, select: {select}}}\n"
        for name, of in (("mine", "a"), ("theirs", "b"))
    )
    step = f"  step: {{{KINDS[kind][0]}, {HEARD}}}\n"
    return f"{HEAD}{before}{step}sinks: {{o: {{from: step, memory: {{data: out}}}}}}\n"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("was", "now", "seen"),
    [
        ("[k, v]", "[v, s, k]", ("11 d", ["1 100 None", "1 101 D"])),
        ("[k, v]", "[v, k]", ("11 -", ["1 100 -", "1 101 -"])),
        ("[s, k, v]", "[k, v]", ("11 -", ["1 100 -", "1 101 -"])),
    ],
    ids=["one is new", "in another order", "one is gone"],
)
def test_rows_and_rules_that_wait_get_the_columns_that_there_are_now(
    job: Job, kind: str, was: str, now: str, seen: tuple[str, list[str]]
) -> None:
    (job.folder / "heard.py").write_text(CLASS.format(*KINDS[kind][1]))
    job.before(pipeline(kind, was))
    found = job.after(pipeline(kind, now), "k row heard", lose=True)
    (heard,) = (heard for k, row, heard in found if row == seen[0])
    assert [each for each in heard.split(", ") if each.startswith("1 ")] == seen[1]


ALONE = """
from headrace import Process, list_of


class Heard(Process):
    heard = list_of("string")

    def on_row(self, row, state, out) -> None:
        said = f"{row.v} {getattr(row, 's', '-')}"
        out(row.k, said, ", ".join(state.heard))
        state.heard.append(said)
"""


def test_rows_that_wait_alone_get_the_columns_that_there_are_now(job: Job) -> None:
    (job.folder / "heard.py").write_text(ALONE)
    texts = [
        f"{HEAD}  mine: {{from: a, select: {select}}}\n  step: {{from: mine, key: k, {HEARD}}}\n"
        "sinks: {o: {from: step, memory: {data: out}}, p: {from: b, memory: {data: more}}}\n"
        for select in ("[k, v]", "[v, s, k]")
    ]
    job.before(texts[0])
    found = job.after(texts[1], "row heard")
    assert [row for row in found if row[0].startswith("11")] == [("11 d", "10 None")]
