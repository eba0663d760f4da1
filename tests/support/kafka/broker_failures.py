"""A broker that is killed or frozen for a while, concurrently with a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from tests.support.kafka.broker import Broker


class Trouble:
    """Causes one fault at a time; the broker works again after each."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._thread: threading.Thread | None = None
        self._failed: BaseException | None = None

    @property
    def there(self) -> bool:
        """Whether the broker is away."""
        return self._thread is not None and self._thread.is_alive()

    def kill(self, away_s: float) -> None:
        """Have it killed now, and back after that time."""
        self._begin(self._broker.kill, self._broker.start, away_s)

    def pause(self, away_s: float) -> None:
        """Have it frozen for so long."""
        self._begin(self._broker.pause, self._broker.resume, away_s)

    def over(self) -> None:
        """Wait until it is well."""
        if self._thread is not None:
            self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _begin(self, away: Callable[[], None], back: Callable[[], None], away_s: float) -> None:
        self.over()
        away()
        self._thread = threading.Thread(target=self._end, args=(back, away_s), daemon=True)
        self._thread.start()

    def _end(self, back: Callable[[], None], away_s: float) -> None:
        try:
            time.sleep(away_s)
            back()
        except BaseException as error:
            self._failed = error
