"""Classes of users for tests: one that keeps a value, and one that keeps it for some time."""

from headrace.core.process import Out, Process, value


class Kept(Process):
    n = value("bigint")

    def on_row(self, row: object, state: "Kept", out: Out) -> None: ...


class Fading(Process):
    n = value("bigint", ttl="1h")

    def on_row(self, row: object, state: "Fading", out: Out) -> None: ...
