"""Classes that are not what `process` wants; nobody runs this file."""

from headrace.core.process import Process, list_of, map_of, timer, value

SECONDS = "10s"
not_a_class = 3


def a_function(row, state, out):
    return row


class Fine(Process):
    n = value("bigint", ttl="1m")

    def on_row(self, row, state, out): ...


class NoMethod(Process):
    n = value("bigint")

    def on_rwo(self, row, state, out): ...


class Both(Process):
    def on_row(self, row, state, out): ...

    def on_rows(self, rows, state, out): ...


class Few(Process):
    def on_row(self, row): ...


class Waiting(Process):
    async def on_row(self, row, state, out): ...


class Timers(Process):
    alarm = timer()

    def on_row(self, row, state, out): ...


class Misspelt(Process):
    a = value("bigin")
    b = list_of("string", ttl=10)
    c = map_of("array<int>", "int")
    d = timer(time="wall")
    e = value("int", tll="10s")
    f = value(int)
    g = value("int", ttl=SECONDS)
    h = value("int", time="processing")
    _i = value("int")
    held = value("int")

    def on_row(self, row, state, out): ...


class Clocks(Process):
    wake = timer(time="processing")
    lately = value("int", ttl="1s")

    def on_row(self, row, state, out): ...

    def on_timer(self, at, state, out): ...


class Many(Process):
    def on_rows(self, rows, state, out): ...
