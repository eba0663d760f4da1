"""Set-up of the process, before the first import that takes time.

Ctrl-C ends the process without a traceback, whatever is being imported. Paths and output are UTF-8
where the locale knows only ASCII (`LC_ALL=C`), even if Python's UTF-8 mode is switched off: names
of files come from pipelines, which are UTF-8, and Python cannot change how it encodes them later.

The module imports nothing but what Python itself has loaded: `_signal` and not `signal`, which
imports `enum`. Until it has run, Ctrl-C leaves a traceback of Python's own start.
"""

import _signal  # type: ignore[import-not-found]
import codecs
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED_STATUS = 130

_RAISING_HANDLERS = [_signal.default_int_handler]


def exit_on_interrupt() -> None:
    """Exit on Ctrl-C without an exception, unless it is ignored or handled."""
    if _signal.getsignal(_signal.SIGINT) in _RAISING_HANDLERS:
        _signal.signal(_signal.SIGINT, _exit_process)


def raise_on_interrupt() -> None:
    """Raise KeyboardInterrupt on Ctrl-C again, for a command that handles it."""
    from headrace.core.errors.interrupts import raise_interrupt

    if _signal.getsignal(_signal.SIGINT) is _exit_process:
        _RAISING_HANDLERS.append(raise_interrupt)
        _signal.signal(_signal.SIGINT, raise_interrupt)


def forget_interrupt() -> None:
    """Let the process exit with its status after a KeyboardInterrupt that was handled.

    Python ends itself by SIGINT if the exception has passed through text that was being executed,
    as `dataclass` and `namedtuple` do it, and nothing was executed since.
    """
    exec("", {})


def ensure_utf8() -> None:
    """Start this process again, in UTF-8 mode, if its locale knows only ASCII."""
    is_ascii = codecs.lookup(sys.getfilesystemencoding()).name == "ascii"
    if is_ascii and not sys.flags.utf8_mode and sys.executable:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _exit_process(number: int, frame: "FrameType | None") -> None:
    os.write(2, b"stopped\n")
    os._exit(INTERRUPTED_STATUS)
