"""Runtime errors of a user's class are reported with the class, the row and the key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import polars as pl
import pytest

from headrace import AllOut, AllState, Out, Process, Row, Trial, timer, value
from headrace.core.api.user_code import UserCodeError
from headrace.core.types.data_types import TIMESTAMP, to_polars
from tests.support.trials import ROWS, Payment, at


@pytest.mark.parametrize(
    ("body", "message", "hint"),
    [
        ("out(k=row.k, n='x')", "column \"n\" is declared bigint, and got 'x' (str)", ""),
        ("out(k=row.k, n=Decimal('NaN'))", "declared bigint, and got Decimal('NaN') (Decimal)", ""),
        ("out(k=row.k, n=Decimal('1e50'))", "declared bigint, and got Decimal('1E+50')", ""),
        ("out(k=row.k, m=1)", "unexpected keyword argument 'm'", "its columns are k, n"),
        ("out.audit(k=1)", 'the class has no output "audit"', "outputs: {...}"),
        ("state.cuont = 1", 'no state "cuont": did you mean "count"?', ""),
        ("state.cuont", 'declares no state "cuont": did you mean "count"?', ""),
        ("row.amount", "no attribute 'amount'", ""),
        ("self.count", "state belongs to a key: read it as state.count", ""),
        ("1 / 0", "ZeroDivisionError: division by zero", ""),
    ],
)
def test_what_is_wrong_is_reported_with_the_row_and_the_key(
    body: str, message: str, hint: str
) -> None:
    scope: dict[str, type] = {"Process": Process, "value": value, "Decimal": Decimal}  # type: ignore[dict-item]
    exec(
        f"class Wrong(Process):\n    __module__ = '{__name__}'\n"
        f"    count = value('bigint')\n    def on_row(self, row, state, out): {body}\n",
        scope,
    )
    trial = Trial(
        scope["Wrong"],
        key="k",
        rows=ROWS,
        event_time="at",
        returns={"k": "string", "n": "bigint"},
    )
    trial.row(k="a", v=7, at=at(0))
    with pytest.raises(UserCodeError) as raised:
        trial.end()
    assert message in raised.value.message
    assert "'v': 7" in raised.value.message and "of the key 'a'" in raised.value.message
    assert hint in raised.value.hint


def test_a_timer_that_sets_itself_for_ever_has_an_end() -> None:
    class Endless(Process):
        tick = timer()

        def on_row(self, row: Payment, state: Endless, out: Out) -> None:
            state.tick = self.event_time

        def on_timer(self, at: datetime, state: Endless, out: Out) -> None:
            state.tick = at + timedelta(minutes=1)

    trial = Trial(Endless, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    trial.watermark(at(600))
    with pytest.raises(UserCodeError, match="timer \"tick\" of the key 'a' fired 100001 times"):
        trial.end()


@pytest.mark.parametrize("clock", ["event", "processing"])
def test_a_timer_that_sets_itself_to_what_has_passed_has_an_end(
    clock: Literal["event", "processing"],
) -> None:
    class Endless(Process):
        tick = timer(time=clock)

        def on_row(self, row: Payment, state: Endless, out: Out) -> None:
            state.tick = self.event_time if clock == "event" else self.now

        def on_timer(self, at: datetime, state: Endless, out: Out) -> None:
            state.tick = at - timedelta(hours=1)

    trial = Trial(Endless, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    times = "timer \"tick\" of the key 'a' fired 100001 times while it was "
    message = f"test_trial_errors.py:Endless: {times}"
    with pytest.raises(UserCodeError, match=re.escape(message)):
        trial.watermark(at(600))
        trial.clock("2026-01-01T00:00:01")


class Returning(Process):
    def on_row(self, row: Payment, state: Returning, out: Out) -> dict[str, object]:  # type: ignore[override]
        return {"k": row.k}


class Yielding(Process):
    def on_row(self, row: Payment, state: Yielding, out: Out) -> Iterator[object]:  # type: ignore[override]
        yield {"k": row.k}


class ReturningMany(Process):
    def on_rows(self, rows: pl.DataFrame, state: AllState, out: AllOut) -> pl.DataFrame:  # type: ignore[override]
        return rows.select("k")


class ReturningLate(Process):
    alarm = timer()

    def on_row(self, row: Payment, state: ReturningLate, out: Out) -> None:
        state.alarm = self.event_time

    def on_timer(self, at: datetime, state: ReturningLate, out: Out) -> int:  # type: ignore[override]
        return 1


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Returning, "Returning: on_row returned a dict (in the row {'k': 'a', 'v': 7"),
        (Yielding, "Yielding: on_row yields (in the row {'k': 'a', 'v': 7"),
        (ReturningMany, "ReturningMany: on_rows returned a DataFrame (in 1 rows)"),
        (ReturningLate, 'ReturningLate: on_timer returned a int (in timer "alarm" at 2026'),
    ],
)
def test_a_method_that_returns_something_is_reported(kind: type[Process], message: str) -> None:
    trial = Trial(kind, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    with pytest.raises(UserCodeError, match=re.escape(message)) as raised:
        trial.end()
    assert raised.value.hint == "emit rows with out(...); a method returns nothing"


class Misspelt(Process):
    count = value("bigint")

    def on_row(self, row: Payment, state: Any, out: Out) -> None:
        state.cuont = 5


class OutLate(Process):
    alarm = timer()

    def on_row(self, row: Payment, state: OutLate, out: Out) -> None:
        state.alarm = self.event_time

    def on_timer(self, at: datetime, state: OutLate, out: Out) -> None:
        out(5)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (
            Misspelt,
            'AttributeError: the class declares no state "cuont": did you mean "count"? (in',
        ),
        (OutLate, "(int) (in timer \"alarm\" at 2026-01-31 08:00:00+00:00 of the key 'a')"),
    ],
)
def test_what_is_misspelt_or_misfits_is_reported(kind: type[Process], message: str) -> None:
    trial = Trial(kind, key="k", rows=ROWS, event_time="at", returns={"k": "string"})
    trial.row(k="a", v=7, at=at(0))
    with pytest.raises(UserCodeError, match=re.escape(message)):
        trial.end()


class Emits(Process):
    def on_row(self, row: Payment, emitter: Emits, give: Out) -> None:
        if row.v == 1:
            give(k=1)
        give.audit(k="fine" if row.v != 2 else 2)
        give.log(k="fine")
        give.log(k=3 if row.v == 3 else "fine")


EMITS_LINE = Emits.on_row.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("v", "place"),
    [
        (1, rf"^test_trial_errors.py:{EMITS_LINE + 2}: out: column \"k\""),
        (2, rf"^test_trial_errors.py:{EMITS_LINE + 3}: out.audit: column \"k\""),
        (3, rf"got 3 \(int\), emitted at line {EMITS_LINE + 4} or {EMITS_LINE + 5} \(in the row"),
    ],
)
def test_a_value_of_another_type_is_reported_with_the_line_that_emits_it(
    v: int, place: str
) -> None:
    outputs = {"audit": {"k": "string"}, "log": {"k": "string"}}
    trial = Trial(Emits, key="k", rows=ROWS, returns={"k": "string"}, outputs=outputs)
    with pytest.raises(UserCodeError, match=place):
        trial.row(k="a", v=v)


class Small(Row):
    v: int

    def __post_init__(self) -> None:
        if self.v > 2:
            raise ValueError("two is the most")


class OneSide(Process):
    stop = timer()

    def on_row(self, row: Small, state: OneSide, out: Out) -> None:
        state.stop = self.event_time

    def on_timer(self, at: datetime, state: OneSide, out: Out) -> None: ...


class EitherSide(Process):
    def on_left(self, row: Small, state: EitherSide, out: Out) -> None: ...

    def on_right(self, row: Small, state: EitherSide, out: Out) -> None: ...


@pytest.mark.parametrize("kind", [OneSide, EitherSide])
def test_a_row_that_cannot_be_made_is_reported_and_no_other(kind: type[Process]) -> None:
    sides: dict[str, Any] = {"rows": ROWS} if kind is OneSide else {"left": ROWS, "right": ROWS}
    trial = Trial(kind, key="k", event_time="at", returns={"k": "string"}, **sides)
    trial.rows(*({"k": f"k{v}", "v": v, "at": at(v)} for v in (0, 1, 2, 3, 4)))
    message = r"ValueError: two is the most \(in the row {'k': 'k3', 'v': 3, .*} of the key 'k3'\)"
    with pytest.raises(UserCodeError, match=message):
        trial.end()


class Ending(Row):
    k: str
    v: int

    def __post_init__(self) -> None:
        if self.v == 3:
            next(iter(()))


class Ended(Process):
    def on_row(self, row: Ending, state: Ended, out: Out) -> None:
        out(k=row.k)


@pytest.mark.parametrize("order", ["arrival", "event_time"])
def test_a_class_of_rows_that_ends_an_iterator_does_not_end_the_rows(
    order: Literal["arrival", "event_time"],
) -> None:
    trial = Trial(Ended, key="k", event_time="at", rows=ROWS, order=order, returns={"k": "string"})
    message = r"raised StopIteration \(in the row {'k': 'k3', 'v': 3, .*} of the key 'k3'\)"
    with pytest.raises(UserCodeError, match=message):
        trial.rows(*({"k": f"k{v}", "v": v, "at": at(v)} for v in (0, 1, 2, 3, 4)))
        trial.end()


def test_a_time_that_python_has_not_is_reported_with_its_column() -> None:
    class Idle(Process):
        def on_row(self, row: object, state: Idle, out: Out) -> None: ...

    trial = Trial(Idle, key="k", rows=ROWS, order="arrival", returns={"k": "string"})
    far = pl.Series("at", [0, 10**18]).cast(to_polars(TIMESTAMP))
    frame = pl.DataFrame({"k": ["a", "b"], "v": [1, 2], "at": far})
    with pytest.raises(UserCodeError, match=r"^column at: .* out of range"):
        list(trial._operator.process(frame))


@pytest.mark.parametrize(
    ("key", "shown"), [("at", "the key"), (["k", "at"], "column 2 of the key")]
)
def test_a_key_that_python_has_not_is_reported(key: str | list[str], shown: str) -> None:
    class Idle(Process):
        def on_row(self, row: object, state: Idle, out: Out) -> None: ...

    trial = Trial(Idle, key=key, rows=ROWS, order="arrival", returns={"k": "string"})
    far = pl.Series("at", [10**18]).cast(to_polars(TIMESTAMP))
    with pytest.raises(UserCodeError, match=f"^{shown}: .* out of range") as caught:
        list(trial._operator.process(pl.DataFrame({"k": ["a"], "v": [1], "at": far})))
    assert caught.value.hint == "drop it before the step, or cast it to string"


def test_rows_of_a_class_have_its_columns_only() -> None:
    class Alien(Row):
        amuont: float

    class Wrong(Process):
        def on_row(self, row: Alien, state: object, out: Out) -> None: ...

    # Names local to a function are not resolved, so the annotation is set here.
    Wrong.on_row.__annotations__["row"] = Alien
    with pytest.raises(UserCodeError, match='row class Alien has "amuont", but rows do not'):
        Trial(Wrong, key="k", rows=ROWS, event_time="at", returns={"k": "string"})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"key": []}, "state and timers belong to a key: give its columns"),
        ({"key": "tags"}, 'key "tags": wanted a single value, got array<string>'),
        ({"order": "arival"}, 'order: wanted "event_time" or "arrival", got "arival"'),
        ({"event_time": "k"}, 'event_time: "k" must be a timestamp, got string'),
        (
            {"rows": None, "left": ROWS, "right": {**ROWS, "k": "int"}},
            'key "k" is string on the left, and int on the right',
        ),
    ],
)
def test_what_a_pipeline_refuses_a_trial_refuses(said: dict[str, Any], message: str) -> None:
    class Idle(Process):
        def on_row(self, row: Any, state: Idle, out: Out) -> None: ...

        on_left = on_right = on_row

    rows = {**ROWS, "tags": "array<string>"}
    returns = {"k": "string"}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Trial(Idle, **{"key": "k", "rows": rows, "event_time": "at", "returns": returns, **said})
