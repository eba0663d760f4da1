"""The compatibility of changed pipelines with their state: what is rejected, with which message."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.checkpoint.manifest import PartDescription
from headrace.core.checkpoint.part_changes import find_upstream_parts
from tests.support.paths import EXPIRING_CLASSES as CLASSES
from tests.support.paths import WINDOW_CODE
from tests.support.runtime.changed_pipelines import (
    HEAD,
    document,
    notes,
    pipeline,
    plan,
    refusal,
    refused_unless_anew,
)

SUMS = "from: rows, key: k, window: {tumble: 10s}, aggregate: {n: count(*), total: sum(v)}"
EVER = "from: rows, key: k, aggregate: {n: count(*), total: sum(v)}"
TOP = "from: rows, key: k, top: {n: 3, by: v desc}"
FIRST = "from: rows, dedup: {key: k}"
SESSIONS = "from: rows, key: k, window: {session: 5s, lateness: 5s}, aggregate: {n: count(*)}"
LAST_ROWS = "from: rows, key: k, window: {tumble: 10s, evict: {last: 3}}, aggregate: {t: sum(v)}"


SAME = {
    "a class of the user's, written otherwise": (
        SUMS.replace("sum(v)", f"{{python: '{WINDOW_CODE}:Total', of: v+1, returns: string}}"),
        SUMS.replace("sum(v)", f"{{returns: string, of: [v + 1], python: '{WINDOW_CODE}:Total'}}"),
    ),
    "spaces": (SUMS, SUMS.replace("count(*)", "COUNT( * )").replace("sum(v)", "sum( (v) )")),
    "other names of the aggregates": (SUMS, SUMS.replace("n:", "rows:").replace("total", "all")),
    "another order of the aggregates": (
        SUMS,
        SUMS.replace("n: count(*), total: sum(v)", "total: sum(v), n: count(*)"),
    ),
    "a duration in another unit": (SUMS.replace("10s", "60s"), SUMS.replace("10s", "1m")),
    "another name of the key": (
        SUMS.replace("key: k", "key: {a: upper(s)}"),
        SUMS.replace("key: k", "key: {b: UCASE( s )}"),
    ),
    "a key written out": (SUMS, SUMS.replace("key: k", "key: {k: k}")),
    "other expressions of the same calls": (
        SUMS,
        SUMS + ", having: n > 1, select: {k: k, m: total / n}",
    ),
    "a mean of what is kept": (SUMS, SUMS.replace("n:", "mean: sum(v) / count(*), n:")),
    "having": (EVER, EVER + ", having: n > 1"),
    "a shorter lateness": (
        SUMS.replace("10s", "10s, lateness: 5s"),
        SUMS.replace("10s", "10s, lateness: 3s"),
    ),
    "a trigger by time": (SUMS, SUMS.replace("10s", "10s, trigger: {every: 1s}")),
    "no trigger by time": (SUMS.replace("10s", "10s, trigger: {every: 1s}"), SUMS),
    "a ttl": (EVER, EVER + ", ttl: 1h"),
    "another ttl": (FIRST.replace("k}", "k, ttl: 1h}"), FIRST.replace("k}", "k, ttl: 2h}")),
    "a rank written out": (TOP, TOP.replace("v desc", "v DESC nulls last")),
    "a trigger after rows of a session": (
        SESSIONS,
        SESSIONS.replace("5s}", "5s, trigger: {count: 7}}"),
    ),
    "another aggregate of the rows that an evictor keeps": (
        LAST_ROWS,
        LAST_ROWS.replace("sum(v)", "max(v)"),
    ),
}

OWN = SUMS.replace("sum(v)", f"{{python: '{WINDOW_CODE}:Total', of: v, returns: string}}")
APPLY = f"window: {{tumble: 9s}}, apply: {{python: '{WINDOW_CODE}:brief', returns: {{n: bigint}}}}"
WATCHED = SUMS.replace("10s", f"10s, trigger: {{python: '{WINDOW_CODE}:EveryThree', of: v}}")
EVICTED = SUMS.replace("10s", f"10s, evict: {{python: '{WINDOW_CODE}:small', of: v}}")
PROCESS = f"from: rows, key: k, process: {{python: '{CLASSES}:Kept', returns: {{n: bigint}}}}"
RULED = PROCESS.replace("key:", "broadcast: {rules: rows}, key:").replace("Kept", "Shares")

OTHER = {
    "another class of the user's": (OWN, OWN.replace("Total", "Median"), "has another total"),
    "a class of other rows": (OWN, OWN.replace("of: v", "of: v + 1"), "has another total"),
    "another function of the user's": (
        f"from: rows, key: k, {APPLY}",
        f"from: rows, key: k, {APPLY}".replace(":brief", ":spread"),
        "belongs to another operation",
    ),
    "another trigger of the user's": (WATCHED, SUMS, "has another window"),
    "another evictor of the user's": (
        EVICTED,
        EVICTED.replace(":small", ":Odd"),
        "has another window",
    ),
    "another key": (SUMS, SUMS.replace("key: k", "key: s"), "has another key"),
    "another type of the key": (
        SUMS,
        SUMS.replace("key: k", "key: {k: cast(k as int)}"),
        "has another key",
    ),
    "keys in another order": (
        SUMS.replace("key: k", "key: [k, s]"),
        SUMS.replace("key: k", "key: [s, k]"),
        "has another key",
    ),
    "another window": (SUMS, SUMS.replace("tumble: 10s", "tumble: 20s"), "has another window"),
    "a window by the wall clock": (
        SUMS,
        SUMS.replace("10s", "10s, time: processing"),
        "has another window",
    ),
    "a window no more": (SUMS, EVER, "has another window"),
    "another evictor": (
        LAST_ROWS,
        LAST_ROWS.replace("last: 3", "last: 4"),
        "has another window",
    ),
    "a trigger that counts": (
        SUMS,
        SUMS.replace("10s", "10s, trigger: {count: 3}"),
        "has another window",
    ),
    "a longer lateness": (
        SUMS,
        SUMS.replace("10s", "10s, lateness: 5s"),
        "has another lateness",
    ),
    "no lateness any more": (
        SUMS.replace("10s", "10s, lateness: 5s"),
        SUMS,
        "has another lateness",
    ),
    "another aggregate of the same name": (
        SUMS,
        SUMS.replace("sum(v)", "sum(v * 2)"),
        "has another total",
    ),
    "another type of an argument": (
        SUMS,
        SUMS.replace("from: rows,", "from: rows, with: {v: cast(v as double)},"),
        "has sum(v) of another type",
    ),
    "a mean with one new half": (
        SUMS.replace("n: count(*), ", ""),
        SUMS.replace("n: count(*), ", "mean: sum(v) / count(*), "),
        "has sum(v) of all rows, and count(*) of none yet: mean needs both",
    ),
    "a state of a class with a ttl": (
        PROCESS,
        PROCESS.replace("Kept", "Fading"),
        "has n of another ttl",
    ),
    "a state that belongs to a key now": (
        RULED,
        RULED.replace("Shares", "Keeps"),
        "has n of another type",
    ),
    "a state that all keys share now": (
        RULED.replace("Shares", "Keeps"),
        RULED,
        "has n of another type",
    ),
    "a longer top": (TOP, TOP.replace("n: 3", "n: 4"), "belongs to another operation"),
    "a top by something else": (
        TOP,
        TOP.replace("v desc", "v asc"),
        "belongs to another operation",
    ),
    "another operation": (EVER, TOP, "belongs to another operation"),
    "a ttl by the wall clock": (
        FIRST.replace("k}", "k, ttl: 1h}"),
        FIRST.replace("k}", "k, ttl: 1h, time: processing}"),
        "expires by another clock",
    ),
}

LOST = {
    "an aggregate": (SUMS, SUMS.replace(", total: sum(v)", ""), "sum(v) of bigint in the state of"),
    "a column of a top": (
        TOP,
        TOP.replace("top:", "drop: [x], top:"),
        "column x in the state of step",
    ),
    "emitted sessions": (
        SESSIONS.replace(", lateness: 5s", ", trigger: {every: 1s}"),
        SESSIONS.replace(", lateness: 5s", ""),
        "the emitted rows that may change",
    ),
    "all of it": (SUMS, "from: rows, where: v > 1", "the state of step"),
}

NEW = {
    "an aggregate": (SUMS, SUMS.replace("n:", "top: max(x), n:"), "max(x) of double"),
    "a mean, both halves": (
        SUMS.replace("n: count(*), ", ""),
        SUMS.replace("n: count(*), ", "mean: sum(x) / count(x), "),
        "count(x) of double",
    ),
    "a column of a top": (TOP.replace("top:", "drop: [x], top:"), TOP, "column x"),
    "a column that an evictor keeps": (
        LAST_ROWS,
        LAST_ROWS.replace("sum(v)", "sum(v), u: max(x)"),
        "column x",
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_other_spelling_and_later_steps_are_no_difference(what: str, tmp_path: Path) -> None:
    before, now = SAME[what]
    was = document(plan(tmp_path, pipeline(before)))
    assert notes(was, plan(tmp_path, pipeline(now))) == ()


@pytest.mark.parametrize("what", OTHER)
def test_a_changed_meaning_is_refused_unless_state_is_reset(what: str, tmp_path: Path) -> None:
    before, after, why = OTHER[what]
    was, now = document(plan(tmp_path, pipeline(before))), plan(tmp_path, pipeline(after))
    refused_unless_anew(was, now, why)


@pytest.mark.parametrize("what", LOST)
def test_what_is_gone_is_refused_unless_it_may_be_lost(what: str, tmp_path: Path) -> None:
    before, after, lost = LOST[what]
    was, now = document(plan(tmp_path, pipeline(before))), plan(tmp_path, pipeline(after))
    refused = refusal(was, now)
    assert f"it has {lost}" in refused
    assert "--allow-lost-state resumes without it" in refused
    assert f"resumes without {lost}" in notes(was, now, lose=True)[0]


@pytest.mark.parametrize("what", NEW)
def test_new_aggregates_are_reported(what: str, tmp_path: Path) -> None:
    before, after, new = NEW[what]
    was, now = document(plan(tmp_path, pipeline(before))), plan(tmp_path, pipeline(after))
    assert f"step has {new} only for new rows" in notes(was, now)


def test_both_texts_are_shown(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(SUMS)))
    assert refusal(was, plan(tmp_path, pipeline(SUMS.replace("10s", "1m")))) == (
        "checkpoint 1 is not compatible: the state of step has another window\n"
        "      was: key k bigint; window tumble 10s; aggregate of count(*), sum(v) of bigint\n"
        "      is:  key k bigint; window tumble 1m; aggregate of count(*), sum(v) of bigint\n"
        "--reset-state step drops its state; --fresh starts from scratch, without state"
    )


def test_all_that_does_not_fit_is_said_at_once(tmp_path: Path) -> None:
    more = "  other: {from: rows, key: s, aggregate: {n: count(*)}}\n"
    sink = "  p: {from: other, memory: {data: more}}\n"
    text = pipeline(SUMS, more).replace("sinks: {", "sinks:\n  ").rstrip("}\n") + "}}\n" + sink
    was = document(plan(tmp_path, text))
    refused = refusal(was, plan(tmp_path, pipeline(SUMS.replace("key: k", "key: s"))))
    assert "the state of step has another key" in refused
    assert "      --reset-state step drops its state\n  and it has" in refused
    assert refused.endswith("\n--fresh starts from scratch, without state")
    assert "\n  and it has the state of other, which is not in the pipeline" in refused


def test_a_step_under_another_name_is_another_step(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(SUMS)))
    text = pipeline(SUMS).replace("step: {", "sums: {").replace("from: step", "from: sums")
    now = plan(tmp_path, text)
    assert "it has the state of step, which is not in the pipeline" in refusal(was, now)
    assert notes(was, now, lose=True) == (
        "resumes without the state of step",
        "sums has no state yet: it starts with new rows",
    )


def test_key_groups_cannot_change_while_state_is_restored(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(SUMS)))
    now = plan(tmp_path, "settings: {key_groups: 64}\n" + pipeline(SUMS))
    assert "it has 128 key groups, and the pipeline 64" in refusal(was, now)
    assert refusal(was, now, "step") == ""


def test_another_parallelism_is_reported(tmp_path: Path) -> None:
    was = document(plan(tmp_path, pipeline(SUMS)))
    now = plan(tmp_path, "settings: {parallelism: 2}\n" + pipeline(SUMS))
    assert notes(was, now) == ("the parallelism was 1, and is 2",)


class TestSourcesAndSinks:
    """Changes of sources, and of sinks with output to commit."""

    def test_a_source_with_another_location_needs_a_reset(self, tmp_path: Path) -> None:
        was = document(plan(tmp_path, pipeline(SUMS)))
        now = plan(tmp_path, pipeline(SUMS, head=HEAD.replace("data: in", "data: more")))
        refused = refusal(was, now, lose=True)
        assert "rows was read elsewhere\n      was: memory in\n      is:  memory more" in refused
        assert "--reset-state rows reads it from its start" in refused
        assert notes(was, now, "rows")[0] == "rows is read from its start"

    def test_a_source_that_is_gone_is_lost(self, tmp_path: Path) -> None:
        other = HEAD.replace("rows:", "others:").replace("data: in", "data: more")
        both = HEAD + other.removeprefix("\nsources:\n")
        was = document(plan(tmp_path, pipeline(SUMS.replace("rows", "[rows, others]"), head=both)))
        now = plan(tmp_path, pipeline(SUMS))
        assert "it has the positions of others, which is not in the pipeline" in refusal(was, now)
        assert notes(was, now, lose=True) == (
            "resumes without the positions of others",
            "upstream of its own state: step has changed: was from rows, others, is from rows",
            "upstream of step: others was removed",
        )

    def test_a_source_that_is_new_is_read_from_its_start(self, tmp_path: Path) -> None:
        other = HEAD.replace("rows:", "others:").replace("data: in", "data: more")
        both = HEAD + other.removeprefix("\nsources:\n")
        was = document(plan(tmp_path, pipeline(SUMS)))
        now = plan(tmp_path, pipeline(SUMS.replace("rows", "[rows, others]"), head=both))
        assert notes(was, now)[0] == "others is new, and read from its start"

    @pytest.mark.parametrize("name", ["data: elsewhere", "data: out"])
    def test_output_to_commit_wants_its_sink(self, name: str, tmp_path: Path) -> None:
        was = document(plan(tmp_path, pipeline(SUMS)), handles=True)
        text = pipeline(SUMS).replace("data: out", name)
        now = plan(tmp_path, text if "else" in name else text.replace("{o:", "{p:"))
        refused = refusal(was, now)
        assert "it has output to commit for o" in refused
        assert "run the unchanged pipeline once more, which commits it" in refused
        assert notes(was, now, lose=True) == ("resumes without output to commit for o",)

    def test_a_sink_without_output_to_commit_may_go(self, tmp_path: Path) -> None:
        was = document(plan(tmp_path, pipeline(SUMS)))
        assert notes(was, plan(tmp_path, pipeline(SUMS).replace("data: out", "data: p"))) == ()


class TestUpstream:
    """Changes upstream of a state."""

    CLEAN = "  clean: {from: rows, where: v > 0, select: {k: k, v: v * 2, at: at}}\n"

    def upstream(self, tmp_path: Path, before: str, now: str) -> tuple[str, ...]:
        was = document(plan(tmp_path, before))
        return notes(was, plan(tmp_path, now))

    def test_a_condition(self, tmp_path: Path) -> None:
        text = pipeline(SUMS.replace("rows", "clean"), self.CLEAN)
        assert self.upstream(tmp_path, text, text.replace("v > 0", "v > 1")) == (
            "upstream of step: clean has changed: was where (v > 0), is where (v > 1)",
        )

    def test_how_it_is_written_is_no_change(self, tmp_path: Path) -> None:
        text = pipeline(SUMS.replace("rows", "clean"), self.CLEAN)
        assert self.upstream(tmp_path, text, text.replace("v * 2", "v*2")) == ()

    def test_within_the_step(self, tmp_path: Path) -> None:
        text = pipeline(SUMS.replace("rows,", "rows, where: v > 0,"))
        assert self.upstream(tmp_path, text, text.replace("v > 0", "v > 1")) == (
            "upstream of its own state: step has changed: was where (v > 0), is where (v > 1)",
        )

    def test_a_source(self, tmp_path: Path) -> None:
        text = pipeline(SUMS)
        assert self.upstream(tmp_path, text, text.replace("delay: 0s", "delay: 1m")) == (
            "upstream of step: rows has changed: was event time at, watermark delay 0s,"
            " is event time at, watermark delay 1m",
        )

    def test_a_step_between(self, tmp_path: Path) -> None:
        before, now = pipeline(SUMS), pipeline(SUMS.replace("rows", "clean"), self.CLEAN)
        assert self.upstream(tmp_path, before, now) == (
            "upstream of step: clean is new",
            "upstream of its own state: step has changed: was from rows, is from clean",
        )

    def test_later_steps_are_not_upstream(self, tmp_path: Path) -> None:
        now = pipeline(SUMS + ", having: n > 2, select: [k, n]")
        assert self.upstream(tmp_path, pipeline(SUMS), now) == ()


def test_all_steps_of_a_loop_are_upstream_of_each_other() -> None:
    def describe(*producers: str) -> PartDescription:
        return PartDescription(1, producers, "", (), ())

    parts = {
        "rows": describe(),
        "tries": describe("rows", "once"),
        "once": describe("tries"),
        "out": describe("tries"),
    }
    assert find_upstream_parts("tries", parts) == {"rows", "once"}
    assert find_upstream_parts("out", parts) == {"rows", "tries", "once"}
