"""Which buckets this process knows to be marked, and the marks that are on their way.

Rules of this file: a bucket counts as marked only once its mark is durable; writes that meet a
mark under way wait for that one instead of sending another; what is known is bounded, and
forgetting costs one more mark.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Final

from treering.core.bucket import Bucket, BucketWidth
from treering.core.table import TableSpec

MARKED_MAX: Final = 500_000
"""How many marked buckets a process remembers: about 100 MB with ids of 20 letters."""

# Table, incarnation, retention, series, start and width: what decides which mark there is, and
# how long it lives.
_Key = tuple[str, int, int | None, str, int, BucketWidth]


class Marks:
    """Marks buckets before the first reading of theirs is acknowledged, each once.

    Args:
        send: Starts one mark; its future completes when the mark is durable.
        most: How many marked buckets to remember; the least recently used go first.
    """

    def __init__(
        self, send: Callable[[TableSpec, str, Bucket], Future[None]], *, most: int = MARKED_MAX
    ) -> None:
        self._send = send
        self._most = most
        self._known: OrderedDict[_Key, None] = OrderedDict()
        self._pending: dict[_Key, Future[None]] = {}
        self._forgotten = 0
        self._lock = threading.Lock()

    def ensure(self, spec: TableSpec, series: str, bucket: Bucket) -> Future[None] | None:
        """Return what completes when the bucket is marked; None where it is known to be.

        The future fails as the mark did; asking again then sends it again.
        """
        key = (
            *(spec.name, spec.incarnation, spec.retention_s),
            *(series, bucket.start_s, bucket.width),
        )
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
                return None
            pending = self._pending.get(key)
            if pending is not None:
                return pending
            pending = Future()
            pending.set_running_or_notify_cancel()
            self._pending[key] = pending
            forgotten = self._forgotten
        sent = self._send(spec, series, bucket)
        sent.add_done_callback(partial(self._settle, key, pending, forgotten))
        return pending

    def _settle(self, key: _Key, pending: Future[None], forgotten: int, sent: Future[None]) -> None:
        error = sent.exception()
        with self._lock:
            self._pending.pop(key, None)
            # What was under way when a table was dropped or deleted from tells nothing any more.
            if error is None and forgotten == self._forgotten:
                self._known[key] = None
                if len(self._known) > self._most:
                    self._known.popitem(last=False)
        if error is None:
            pending.set_result(None)
        else:
            pending.set_exception(error)

    def forget(self, table: str) -> None:
        """Forget what is marked in a table: it was dropped, or something in it was deleted."""
        with self._lock:
            self._forgotten += 1
            for key in [key for key in self._known if key[0] == table]:
                del self._known[key]

    def __len__(self) -> int:
        return len(self._known)
