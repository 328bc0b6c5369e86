"""Asking the index about several series side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from treering.core.listing import BucketListing, ListedBuckets
from treering.errors import TreeringError
from treering.fanout.permits import ATTEMPTS_MAX, Permits, backoff_s


@dataclass(slots=True)
class AskedListing:
    """A question on its way, with its history.

    Attributes:
        listing: What is asked.
    """

    listing: BucketListing
    attempts: int = 0
    due_s: float = 0.0


class ListFanOut:
    """Sends questions side by side and keeps the answers.

    Attributes:
        answers: What the index said, by series.
        retries: How many questions were sent again after a failure.
    """

    def __init__(
        self,
        listings: Iterable[BucketListing],
        permits: Permits,
        *,
        is_whole: bool = False,
        attempts_max: int = ATTEMPTS_MAX,
    ) -> None:
        """Take the questions.

        Args:
            listings: One for each series.
            permits: What bounds the requests.
            is_whole: Whether to ask on until an answer is complete.
            attempts_max: How often one question is sent at most.
        """
        self._waiting = deque(AskedListing(listing) for listing in listings)
        self._permits = permits
        self._is_whole = is_whole
        self._attempts_max = attempts_max
        self._in_flight = 0
        self.retries = 0
        self.answers: dict[str, ListedBuckets] = {}

    @property
    def is_done(self) -> bool:
        """Whether every question was answered."""
        return not self._waiting and self._in_flight == 0

    def start(self, now_s: float) -> list[AskedListing]:
        """Return the questions to send now."""
        sent: list[AskedListing] = []
        for _ in range(len(self._waiting)):
            asked = self._waiting.popleft()
            if asked.due_s > now_s or not self._permits.try_acquire():
                self._waiting.append(asked)
                continue
            sent.append(asked)
        self._in_flight += len(sent)
        return sent

    def wake_s(self) -> float | None:
        """Return when the next delayed retry is due."""
        return min((asked.due_s for asked in self._waiting if asked.due_s > 0), default=None)

    def on_arrival(self, request: AskedListing, future: Future[Any]) -> None:
        """Nothing is known of an answer before it is looked at."""

    def on_result(self, request: AskedListing, answer: ListedBuckets) -> None:
        """Take an answer; where all is wanted and more is there, ask on."""
        self._in_flight -= 1
        name = request.listing.series
        before = self.answers.get(name)
        found = (*(before.buckets if before else ()), *answer.buckets)
        self.answers[name] = ListedBuckets(found, answer.next_s)
        if self._is_whole and answer.next_s is not None:
            self._waiting.append(AskedListing(request.listing.after(answer.next_s)))

    def on_error(self, request: AskedListing, error: TreeringError, now_s: float) -> None:
        """Take a failure: ask again later, or give up.

        Raises:
            TreeringError: It is not worth asking again: without an answer nothing may be left out.
        """
        self._in_flight -= 1
        request.attempts += 1
        if not error.retryable or request.attempts >= self._attempts_max:
            raise error
        self.retries += 1
        request.due_s = now_s + backoff_s(request.attempts)
        self._waiting.append(request)
