"""What a store did, as metrics of Prometheus.

Rules of this file: the store keeps its own numbers, and a scrape reads them; nothing is counted
twice, and a store that nobody scrapes pays nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from treering.core.histogram import LatencyStats
from treering.errors import UsageError, missing_extra
from treering.stats import StoreStats

_PREFIX: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
# Powers of two of microseconds: from a quarter of a millisecond to 67 seconds.
_OCTAVES: Final = range(8, 27)


class StoreCollector:
    """Gives a store's numbers to a Prometheus registry whenever it is scraped."""

    def __init__(self, stats: Callable[[], StoreStats], prefix: str) -> None:
        self._stats = stats
        self._prefix = prefix

    def describe(self) -> list[Any]:
        """Return the families without numbers, so that a name that is taken is seen at once."""
        return list(self.collect())

    def collect(self) -> Iterator[Any]:
        """Yield the families with their numbers now."""
        stats = self._stats()
        yield from self._gauges(stats)
        yield from self._counters(stats)
        yield self._latency(stats, "call")
        yield self._latency(stats, "request")

    def _gauges(self, stats: StoreStats) -> Iterator[Any]:
        from prometheus_client.core import GaugeMetricFamily

        for name, text, value in (
            ("in_flight", "Requests under way now.", stats.in_flight),
            ("in_flight_peak", "The most requests ever under way at once.", stats.in_flight_peak),
            ("in_flight_limit", "The most requests that may be under way.", stats.in_flight_limit),
        ):
            yield GaugeMetricFamily(f"{self._prefix}_{name}", text, value=value)

    def _counters(self, stats: StoreStats) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily

        def family(name: str, text: str, *labels: str) -> Any:
            return CounterMetricFamily(f"{self._prefix}_{name}", text, labels=labels)

        for name, text in (
            ("calls", "Calls of a verb that came to an end."),
            ("requests", "Requests sent to the engine, repeated ones included."),
            ("retries", "Requests that were sent again after a failure."),
            ("partitions", "Partitions that requests were sent for."),
            ("rows", "Readings acknowledged by writes, or returned by reads."),
        ):
            counter = family(name, text, "verb")
            for verb, facts in stats.verbs.items():
                counter.add_metric([verb], getattr(facts, name))
            yield counter
        for name, text in (
            ("calls_failed", "Calls of a verb that failed."),
            ("requests_failed", "Requests that failed."),
        ):
            counter = family(name, text, "verb", "error")
            for verb, facts in stats.verbs.items():
                for error, count in getattr(facts, name).items():
                    counter.add_metric([verb, error], count)
            yield counter
        counter = family("refused_readings", "Readings that writes refused.", "reason")
        for reason, count in stats.refused.items():
            counter.add_metric([reason], count)
        yield counter

    def _latency(self, stats: StoreStats, what: str) -> Any:
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(
            f"{self._prefix}_{what}_seconds", f"How long a {what} took.", labels=["verb"]
        )
        for verb, facts in stats.verbs.items():
            latency: LatencyStats = getattr(facts, f"{what}_latency")
            buckets = [(str(2**octave / 1e6), float(latency.within(octave))) for octave in _OCTAVES]
            buckets.append(("+Inf", float(latency.count)))
            family.add_metric([verb], buckets, sum_value=latency.total_s)
        return family


def register_collector(
    registry: Any, stats: Callable[[], StoreStats], prefix: str
) -> Callable[[], None]:
    """Have a registry scrape a store; return what takes it out again.

    Raises:
        MissingExtraError: prometheus-client is not installed.
        UsageError: Not a prefix, or the registry has metrics of that prefix.
    """
    try:
        import prometheus_client  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_extra("metrics for Prometheus", "metrics") from error
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f"{prefix!r} cannot start the name of a metric",
            hint="use letters, digits and underscores, and no digit first",
        )
    collector = StoreCollector(stats, prefix)
    try:
        registry.register(collector)
    except ValueError as error:
        raise UsageError(
            f"the registry has metrics that start with {prefix}_ already",
            hint="a store registers once; give a second store a prefix= of its own",
        ) from error
    return lambda: registry.unregister(collector)
