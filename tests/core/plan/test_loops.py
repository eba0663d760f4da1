"""Loops in plans: the edge back, the steps inside, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.plan import nodes
from headrace.core.plan.explain import explain
from headrace.core.plan.loop_bodies import find_loop_bodies, list_loops
from tests.support.plans import SOURCE, UNTIMED, plan_of, said

SOURCES = f"""{SOURCE}{UNTIMED}\
  edges: {{files: {{path: e.jsonl}}, schema: {{tail: bigint, head: bigint}}}}
"""
ONCE = "{from: tries.loop, select: {id: id + 1, at: at}}"


def over_plain(iterate: str, steps: str = f"  once: {ONCE}\n", sinks: str = "") -> str:
    """Return a pipeline with a loop over rows with `id` and `at`."""
    return (
        f"{SOURCES}steps:\n  tries: {{iterate: {{{iterate}}}}}\n{steps}"
        f"sinks:\n  out: {{from: tries, console: {{}}}}\n  a: {{from: orders, console: {{}}}}\n"
        f"  b: {{from: edges, console: {{}}}}\n{sinks}"
    )


LOOP = "from: plain, until: id > 10, feedback: once"
DELTA = "delta: {solution: plain, workset: plain, key: id}, body: once, max_rounds: 3"


def test_the_edge_back_comes_last_and_the_head_is_a_task_of_its_own(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, over_plain(LOOP))
    (back,) = (edge for edge in plan.edges if edge.is_feedback)
    assert plan.edges[-1] is back
    assert (back.stream, back.consumer, back.exchange) == ("once", "tries", "forward")
    assert [task.parts for task in plan.tasks if "tries" in task.parts] == [("tries",)]
    assert list(find_loop_bodies(plan)["tries"]) == ["once"]


def test_the_rows_that_go_round_have_a_column_that_counts(tmp_path: Path) -> None:
    once = "  once: {from: tries.loop, select: {id: id, at: at, rounds: rounds}}\n"
    loop = f"{LOOP}, rounds: true, max_rounds: 3"
    over = "  o: {from: tries.over, console: {}}\n"
    plan = plan_of(tmp_path, over_plain(loop, once, over))
    for name in ("tries", "tries.loop", "tries.over"):
        assert str(plan.streams[name].schema) == "id bigint, at timestamp, rounds bigint"


def test_rows_that_lose_their_event_time_inside_have_none(tmp_path: Path) -> None:
    joined = (
        "  once:\n    join: {left: {from: tries.loop, as: one}, right: edges, on: one.id = "
        "edges.tail}\n    select: {id: edges.head}\n"
        "  first: {from: orders, select: [id]}\n"
    )
    sinks = "  p: {from: plain, console: {}}\n"
    loop = "from: first, until: id > 10, feedback: once"
    plan = plan_of(tmp_path, over_plain(loop, joined, sinks))
    assert plan.streams["first"].has_event_time
    assert not plan.streams["tries.loop"].has_event_time


def test_a_delta_iteration_sends_its_two_tables_into_the_loop(tmp_path: Path) -> None:
    once = "  once: {from: [tries.workset, tries.solution], key: id, aggregate: {at: max(at)}}\n"
    plan = plan_of(tmp_path, over_plain(DELTA, once))
    assert [edge.stream for edge in plan.edges if edge.consumer == "once"] == [
        "tries.workset",
        "tries.solution",
    ]
    assert list(find_loop_bodies(plan)["tries"]) == ["once", "once@retract"]
    assert not plan.streams["tries"].has_event_time
    assert "once@retract replaces rows of the solution by id, 3 rounds at most" in explain(plan)


@pytest.mark.parametrize(
    "until",
    [
        "id > 3 and true",
        "id > 3 or null",
        "not (id > 3 and null)",
        "id > 3 or 1 > 2",
        "id <=> null",
    ],
)
def test_constants_in_until_may_leave_it_to_the_row(tmp_path: Path, until: str) -> None:
    plan = plan_of(tmp_path, over_plain(f"from: plain, until: {until}, feedback: once"))
    assert [*find_loop_bodies(plan)] == ["tries"]


def test_explain_draws_the_way_back(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, over_plain(LOOP))
    text = explain(plan)
    assert "    rows of once come back\n    a row leaves when id > 10\n" in text
    assert "    event time passes when the loop is empty\n" in text
    assert "    once > tries: forward, back to the head of the loop\n" in text
    assert "n4 -.->|" in explain(plan, "mermaid")
    assert (
        '"once" -> "tries" [label="forward, back to the head of the loop", style=dashed, '
        "constraint=false];" in explain(plan, "dot")
    )


@pytest.mark.parametrize(
    ("iterate", "steps", "message"),
    [
        (
            LOOP,
            "  once: {from: tries.loop, select: {id: cast(id as string), more: id}}\n",
            'iterate.feedback: "id" of "once" is string, not bigint; "once" has no column "at"; '
            '"once" has another column "more" '
            "[the rows that come back have the columns of tries.loop: id bigint, at timestamp]",
        ),
        (
            LOOP,
            "  once: {from: plain, where: id > 1}\n",
            'iterate.feedback: the rows of "once" do not come from tries.loop '
            "[the first step inside is one with from: tries.loop]",
        ),
        (
            "from: plain, until: rounds = 3, feedback: once",
            f"  once: {ONCE}\n",
            'iterate.until: the column "rounds" is not counted [add rounds: true]',
        ),
        (
            "delta: {solution: plain, workset: plain, key: idd}, body: once, max_rounds: 3",
            "  once: {from: tries.workset, select: {id: id, at: at}}\n",
            'iterate.delta.key: unknown column "idd" [did you mean "id"?]',
        ),
        (
            LOOP,
            "  others: {iterate: {from: plain, until: id > 9, feedback: once}}\n"
            "  once: {from: [tries.loop, others.loop], select: {id: id + 1, at: at}}\n",
            'iterate.feedback: "once" is inside of the loops of "tries" and "others" '
            "[each loop has steps of its own]",
        ),
        (
            "from: plain, until: id, feedback: once",
            f"  once: {ONCE}\n",
            "wanted a condition (boolean), got bigint [compare it]",
        ),
        (
            "from: plain, until: rand() > 0.5, feedback: once",
            f"  once: {ONCE}\n",
            "rand makes its values from the place of a row in its source, and there is none here",
        ),
        (
            "from: plain, until: 1 > 2, feedback: once",
            f"  once: {ONCE}\n",
            "iterate.until: it is the same for every row: they leave at once, or never "
            "[compare a column, as in until: n > 10]",
        ),
        *(
            (
                f"from: plain, until: {until}, feedback: once",
                f"  once: {ONCE}\n",
                "iterate.until: it is the same for every row: they leave at once, or never "
                "[compare a column, as in until: n > 10]",
            )
            for until in (
                "id > 3 and false",
                "id > 3 and null",
                "not (id = null)",
                "id > 3 and 1 > 2",
                "not (id > 3 or true)",
                "id > 3 or not false",
            )
        ),
        (
            "from: plain, until: raise_error('no') is null, feedback: once",
            f"  once: {ONCE}\n",
            "iterate.until: it may fail for a row "
            "[compute it in a step inside, whose on_error applies to the row]",
        ),
        (
            LOOP,
            "  once: {from: again, with: {id: id + 1}}\n  again: {from: [tries.loop, tries], "
            "where: id > 1}\n",
            'the loop of "tries" reads the rows that have left it '
            "[a row that is to go round does not leave: read tries.loop]",
        ),
        (
            "bulk: plain, body: once, rounds: 3, until: max(id - before.id) < 1",
            f"  once: {ONCE}\n",
            "iterate.until: before is the row of the same key, and there is no key [as in key: id]",
        ),
        (
            "bulk: plain, body: once, rounds: 3, until: id < 1",
            f"  once: {ONCE}\n",
            "iterate.until: wanted a condition over all rows of a round "
            "[as in max(abs(rank - before.rank)) < 1e-6]",
        ),
        (
            "bulk: plain, body: once, rounds: 3, until: max(od) < 1",
            f"  once: {ONCE}\n",
            'iterate.until: unknown column "od"',
        ),
        (
            "bulk: plain, body: once, rounds: 3, key: od",
            f"  once: {ONCE}\n",
            'iterate.key: unknown column "od"',
        ),
        (
            "bulk: plain, body: once, rounds: 3",
            f"  once: {ONCE}\n  aside: {{from: once, where: id > 1}}\n",
            '"once" is inside of the loop of "tries", which has many rounds '
            "[tries has the rows of the last round]",
        ),
        (
            "bulk: plain, body: once, rounds: 3",
            "  once: {from: tries.loop, select: [id]}\n",
            'iterate.body: "once" has no column "at"',
        ),
        (
            LOOP,
            "  once: {from: tries.loop, dedup: {key: id, keep: last}}\n",
            "iterate.feedback: the rows that come back are",
        ),
        (
            "from: plain, until: id > 10, feedback: onse",
            f"  once: {ONCE}\n",
            'unknown source or step "onse" [did you mean "once"?]',
        ),
        (
            LOOP,
            "  once: {from: two, with: {id: id + 1}}\n"
            "  two: {iterate: {from: tries.loop, until: id > 5, feedback: three}}\n"
            "  three: {from: two.loop, with: {id: id + 1}}\n",
            'a loop inside of another, that of "tries", is not built [let it leave that first]',
        ),
        (
            "delta: {solution: plain, workset: plain, key: od}, body: once, max_rounds: 3",
            "  once: {from: tries.workset, select: {id: id, at: at}}\n",
            'iterate.delta.key: unknown column "od"',
        ),
        (
            "delta: {solution: plain, workset: edges, key: id}, body: once, max_rounds: 3",
            "  once: {from: tries.workset, select: {id: id, at: at}}\n",
            'iterate.delta.workset: "edges" has no column "id"; "edges" has no column "at"; '
            '"edges" has another column "tail"; "edges" has another column "head" '
            "[it has the columns of the solution: id bigint, at timestamp]",
        ),
        (
            DELTA,
            "  once: {from: tries.solution, select: [id]}\n",
            'iterate.body: "once" has no column "at" '
            "[the rows that come back have the columns of tries.workset: id bigint, at timestamp]",
        ),
        (
            DELTA.replace("body: once", "body: tries.solution"),
            "",
            'iterate.body: wanted the last step inside of the loop, got "tries.solution" '
            "[the first step inside is one with from: tries.workset; body names the last one",
        ),
        (
            LOOP,
            f"  once: {ONCE}\n  often: {{from: tries.over, where: id > 1}}\n",
            '"tries" has no output "over" '
            "[it is there with max_rounds, for rows that have gone round so often]",
        ),
        (
            DELTA,
            "  once: {from: tries.loop, select: {id: id, at: at}}\n",
            '"tries" has no output "loop" [did you mean "tries.solution"?]',
        ),
        (
            DELTA,
            "  once: {from: tries.workset, select: {id: id, at: at}}\n"
            "  aside: {from: tries.solution, where: id > 1}\n",
            '"tries.solution" is inside of the loop of "tries", which has many rounds '
            "[tries has the rows of the last round]",
        ),
        (
            f"{DELTA}, until: id < 1",
            "  once: {from: tries.workset, select: {id: id, at: at}}\n",
            "iterate.until: wanted a condition over all rows of a round",
        ),
    ],
)
def test_mistakes_are_reported(tmp_path: Path, iterate: str, steps: str, message: str) -> None:
    problems = said(tmp_path, over_plain(iterate, steps))
    assert any(message in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("clauses", "word"),
    [
        ("window: {tumble: 1m}, aggregate: {n: count(*)}", "window waits for event time"),
        ("over: {n: row_number()}", "over waits for event time"),
        ("match: {pattern: a b, emit: {n: count(a)}}", "match waits for event time"),
        ("dedup: {key: id, order: event_time}", "dedup by event time waits for event time"),
        ("aggregate: {n: count(*)}, ttl: 1h", "ttl by event time waits for event time"),
    ],
)
def test_steps_that_wait_for_event_time_are_refused(
    tmp_path: Path, clauses: str, word: str
) -> None:
    key = "" if "dedup" in clauses else "key: id, "
    text = over_plain(
        "from: first, until: id > 10, feedback: once",
        "  first: {from: orders, select: [id]}\n"
        f"  inner: {{from: tries.loop, {key}{clauses}}}\n"
        "  once: {from: inner, select: [id]}\n",
    )
    problems = said(tmp_path, text)
    assert any(f'it is inside the loop of "tries", and {word}' in each for each in problems), (
        problems
    )


def test_a_circle_without_a_head_is_refused(tmp_path: Path) -> None:
    steps = "  once: {from: [tries.loop, two], where: id > 1}\n  two: {from: once, where: id > 2}\n"
    problems = said(tmp_path, over_plain(LOOP, steps))
    assert any("steps read each other in a cycle: once from two from once" in p for p in problems)


def test_worker_processes_are_refused(tmp_path: Path) -> None:
    text = over_plain(LOOP).replace("sources:", "settings: {workers: 2}\nsources:")
    problems = said(tmp_path, text)
    assert any("a loop runs in one process, but settings.workers is 2" in p for p in problems)


def test_rows_of_other_kinds_do_not_enter(tmp_path: Path) -> None:
    text = over_plain(
        "from: last, until: id > 10, feedback: once",
        "  last: {from: plain, dedup: {key: id, keep: last}}\n"
        "  once: {from: tries.loop, with: {id: id + 1}}\n",
    )
    assert any('iterate does not take the rows of "last"' in p for p in said(tmp_path, text))


def test_a_loop_that_nothing_leaves_needs_no_reader_of_rows_that_leave(tmp_path: Path) -> None:
    once = "  once: {from: tries.loop, with: {id: id + 1}}\n"
    text = over_plain("from: plain, rounds: true, max_rounds: 2, feedback: once", once)
    text = text.replace("out: {from: tries,", "out: {from: once,")
    loop = plan_of(tmp_path, text).part("tries")
    assert isinstance(loop, nodes.Step)
    assert said(tmp_path, text) == []


RANKED = "top: {n: 1, by: id, ties: rank}, drop: [rank]"
BULK_TABLE = "bulk: plain, body: next, rounds: 3"
DELTA_TABLE = "delta: {solution: plain, workset: plain, key: id}, body: next, max_rounds: 3"


@pytest.mark.parametrize(
    ("iterate", "step", "round_inputs"),
    [
        (BULK_TABLE, "from: tries.loop, where: id > 3", {"tries.loop"}),
        (DELTA_TABLE, "from: tries.workset, where: id > 3", {"tries.workset"}),
        (DELTA_TABLE, "from: tries.solution, where: id > 3", None),
        (BULK_TABLE, "from: [plain, tries.loop]", {"tries.loop"}),
        (DELTA_TABLE, "from: [plain, tries.workset]", {"tries.workset"}),
        (DELTA_TABLE, "from: [tries.solution, tries.workset]", None),
        (BULK_TABLE, "from: tries.loop, key: id, aggregate: {at: max(at)}", {"tries.loop"}),
        (BULK_TABLE, "from: tries.loop, key: id, aggregate: {at: first(at)}", None),
        (BULK_TABLE, f"from: tries.loop, {RANKED}", {"tries.loop"}),
        (
            BULK_TABLE,
            "from: tries.loop, where: id > 3, on_error: skip",
            None,
        ),
        (
            DELTA_TABLE,
            "join: {left: {from: tries.workset, as: one}, right: {from: tries.solution, as: b},"
            " on: one.id = b.id}, select: {id: b.id, at: one.at}",
            {"tries.workset"},
        ),
        (
            DELTA_TABLE,
            "join: {left: {from: tries.solution, as: one}, right: {from: tries.workset, as: b},"
            " on: one.id = b.id, type: left}, select: {id: one.id, at: b.at}",
            None,
        ),
    ],
)
def test_a_loop_has_whole_tables_if_each_step_computes_them(
    tmp_path: Path, iterate: str, step: str, round_inputs: set[str] | None
) -> None:
    text = over_plain(iterate, f"  next: {{{step}}}\n")
    plan = plan_of(tmp_path, text)
    ((_, loop),) = list_loops(plan)
    assert loop.table is not None
    assert loop.table.sends_tables is (round_inputs is not None)
    inside = plan.part("next")
    assert isinstance(inside, nodes.Step)
    assert inside.round_inputs == (round_inputs or set())
