"""Classes of users for tests, which differ in what they keep: for how long, and whose it is."""

from headrace import Out, Process, shared, value


class Kept(Process):
    n = value("bigint")

    def on_row(self, row: object, state: "Kept", out: Out) -> None: ...


class Fading(Process):
    n = value("bigint", ttl="1h")

    def on_row(self, row: object, state: "Fading", out: Out) -> None: ...


class Shares(Process):
    """A class with state shared by all keys."""

    n = shared(value("bigint", default=0))
    last = shared(value("bigint", default=0))

    def on_rule(self, rule: object, state: "Shares") -> None: ...

    def on_row(self, row: object, state: "Shares", out: Out) -> None: ...


class Keeps(Process):
    """The same class, with one state per key."""

    n = value("bigint", default=0)
    last = shared(value("bigint", default=0))

    def on_rule(self, rule: object, state: "Keeps") -> None: ...

    def on_row(self, row: object, state: "Keeps", out: Out) -> None: ...
