"""The class that retry.yaml names."""

from datetime import datetime, timedelta

from headrace import Out, Process, Row, timer, value


class Order(Row):
    """The columns of an order that `Wait` reads."""

    customer_id: int
    name: str | None
    rounds: int


class Wait(Process):
    """Passes an order with a name on at once, any other one after 1, 2, 4 ... seconds.

    Each order comes once: a second one of the same id would take the place of one that waits.
    """

    customer = value("bigint")
    rounds = value("bigint", default=0)
    again = timer(time="processing")

    def on_row(self, row: Order, state: "Wait", out: Out) -> None:
        if row.name is not None:
            out(order_id=self.key, customer_id=row.customer_id, name=row.name, rounds=row.rounds)
            return
        state.customer, state.rounds = row.customer_id, row.rounds
        state.again = self.now + timedelta(seconds=2**row.rounds)

    def on_timer(self, at: datetime, state: "Wait", out: Out) -> None:
        out(order_id=self.key, customer_id=state.customer, name=None, rounds=state.rounds)
        state.customer = None
        state.rounds = 0
