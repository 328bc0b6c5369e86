"""What a store did is counted once, by verb, and a scrape tells the same numbers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treering
from tests.engine.contract import DAY_MS, NOW_MS
from tests.engine.faults import FaultyEngine
from treering.errors import EngineError, OverloadedError, UnavailableError
from treering.store import Store


def open_faulty(**faults: Any) -> Store:
    """Return a store on an engine that fails as told."""
    return Store(FaultyEngine(**faults), clock=treering.ManualClock(np.datetime64(NOW_MS, "ms")))


def times_of(days: int) -> list[int]:
    """Return one event time in each of the last ``days`` days."""
    return [NOW_MS - day * DAY_MS for day in range(days)]


def test_requests_rows_partitions_and_refusals_are_counted_by_verb() -> None:
    with open_faulty() as store:
        table = store.create("t", rate="1/s", retention="30d")
        assert store.stats().verbs == {}
        table.write("s", [*times_of(3), NOW_MS - 90 * DAY_MS], unit="ms", value=[1.0] * 4)
        table.read("s", "-10d")
        table.read("s", "-1d")
        table.latest("s", 2)
        stats = store.stats()
    write, read = stats.verbs["write"], stats.verbs["read"]
    assert (write.calls, write.requests, write.partitions, write.rows) == (1, 3, 3, 3)
    assert (read.calls, read.requests, read.partitions, read.rows) == (2, 13, 13, 5)
    assert stats.verbs["latest"].rows == 2
    assert stats.refused == {"EXPIRED": 1}
    assert (stats.rows_in, stats.rows_out) == (3, 7)
    assert stats.requests == sum(verb.requests for verb in stats.verbs.values())
    assert stats.partitions_read == 13 + stats.verbs["latest"].partitions
    assert stats.in_flight == 0
    assert 1 <= stats.in_flight_peak <= 16
    for verb in stats.verbs.values():
        assert verb.request_latency.count == verb.requests
        assert 0 < verb.request_latency.p50_s <= verb.request_latency.max_s
        assert verb.request_latency.max_s <= verb.call_latency.total_s


def fault_once_for_each(kind: type[EngineError]) -> Callable[[int, Any], EngineError | None]:
    """Return a fault that refuses the first three requests."""
    return lambda number, _request: kind("as told") if number <= 3 else None


def test_requests_that_are_sent_again_are_counted_with_their_reason() -> None:
    with open_faulty(fault=fault_once_for_each(OverloadedError)) as store:
        table = store.create("t", rate="1/s", retention="30d")
        table.write("s", times_of(5), unit="ms", value=[1.0] * 5)
        stats = store.stats()
    write = stats.verbs["write"]
    assert (write.requests, write.retries, write.partitions, write.rows) == (8, 3, 5, 5)
    assert write.requests_failed == {"OverloadedError": 3}
    assert write.calls_failed == {}
    assert stats.in_flight_limit < 16


def test_calls_that_fail_are_counted_by_their_error() -> None:
    with open_faulty(fault=lambda _number, _request: UnavailableError("as told")) as store:
        table = store.create("t", rate="1/s", retention="30d")
        with pytest.raises(UnavailableError):
            table.write("s", times_of(1), unit="ms", value=[1.0])
        with pytest.raises(UnavailableError):
            table.read("s", "-1h")
        stats = store.stats()
    for verb in ("write", "read"):
        assert stats.verbs[verb].calls_failed == {"UnavailableError": 1}
        assert stats.verbs[verb].requests_failed == {"UnavailableError": 4}
        assert stats.verbs[verb].retries == 3
        assert stats.verbs[verb].rows == 0


def test_threads_lose_no_count() -> None:
    with open_faulty() as store:
        table = store.create("t", rate="1/s", retention="30d")
        threads = [
            threading.Thread(
                target=lambda n=n: [
                    table.write(f"s-{n}", [NOW_MS - i], unit="ms", value=[1.0]) for i in range(50)
                ]
            )
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        write = store.stats().verbs["write"]
    assert (write.calls, write.requests, write.rows, write.request_latency.count) == (400,) * 4


def test_stats_are_json() -> None:
    with open_faulty() as store:
        table = store.create("t", rate="1/s", retention="30d")
        table.write("s", times_of(2), unit="ms", value=[1.0] * 2)
        document = store.stats().to_json()
    assert document["verbs"]["write"]["rows"] == 2
    assert set(document["verbs"]["write"]["call_latency"]) == {
        *("count", "total_s", "p50_s", "p99_s", "max_s")
    }


# Prometheus


def scraped(registry: Any) -> dict[str, float]:
    """Return the samples of a scrape by name and labels, as the text has them."""
    from prometheus_client import generate_latest

    lines = generate_latest(registry).decode().splitlines()
    samples = [re.fullmatch(r"([^# ]\S*) (\S+)", line) for line in lines if line[0] != "#"]
    return {match[1]: float(match[2]) for match in samples if match is not None}


def test_scraped_text_tells_the_numbers_of_the_store() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    with open_faulty(fault=fault_once_for_each(UnavailableError)) as store:
        store.register_metrics(registry)
        table = store.create("t", rate="1/s", retention="30d")
        table.write("s", [*times_of(4), NOW_MS + DAY_MS], unit="ms", value=[1.0] * 5)
        table.read("s", "-10d")
        text, stats = scraped(registry), store.stats()
    for verb, facts in stats.verbs.items():
        label = f'{{verb="{verb}"}}'
        assert text[f"treering_requests_total{label}"] == facts.requests
        assert text[f"treering_retries_total{label}"] == facts.retries
        assert text[f"treering_rows_total{label}"] == facts.rows == 4
        assert text[f"treering_request_seconds_count{label}"] == facts.requests
        assert text[f'treering_request_seconds_bucket{{le="+Inf",verb="{verb}"}}'] == facts.requests
        assert text[f"treering_call_seconds_sum{label}"] == pytest.approx(
            facts.call_latency.total_s
        )
    failed = 'treering_requests_failed_total{error="UnavailableError",verb="write"}'
    assert text[failed] == 3
    assert text['treering_refused_readings_total{reason="FUTURE"}'] == 1
    assert text["treering_in_flight"] == 0
    # A closed store is scraped no more, and its names are free again.
    assert scraped(registry) == {}


def test_second_store_in_one_registry_needs_a_prefix_of_its_own() -> None:
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry(auto_describe=True)
    with open_faulty() as one, open_faulty() as two:
        one.register_metrics(registry)
        with pytest.raises(treering.UsageError, match="treering_ already"):
            two.register_metrics(registry)
        two.register_metrics(registry, prefix="edge")
        assert {"treering_in_flight", "edge_in_flight"} <= set(scraped(registry))
        with pytest.raises(treering.UsageError, match="'9x' cannot"):
            two.register_metrics(registry, prefix="9x")
