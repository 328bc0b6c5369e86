"""The series of a table in the catalog, sharded by hash, so that no partition grows.

Rules of this file: a shard is one partition, so that what belongs together is one conditional
batch: the series (rows of version 0), the log of their widths (version 1 and on), and the newest
version. A series is entered once, before a reading of it is acknowledged. A client that knows the
log up to a version asks only for what comes after it. Whether a conditional write took place is
seen by reading again, never by its answer.
"""

from __future__ import annotations

import heapq
import random
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from treering.core.bucket import BucketWidth
from treering.core.series import SeriesRecord
from treering.core.table import TableSpec
from treering.core.widths import (
    LEASE_S,
    History,
    history_from_text,
    history_to_text,
    is_pending,
    plan_width,
    valid_history,
)
from treering.engine.cassandra.driver import ConsistencyLevel
from treering.engine.cassandra.link import Link
from treering.engine.cassandra.statements import CatalogStatements
from treering.engine.cassandra.tags import TagIndex
from treering.engine.protocol import WidthNews, listed_record
from treering.errors import EngineTimeoutError, StoreBusyError

SHARDS: Final = 64
"""Over how many partitions the series of a new table are spread; the catalog keeps the number.

A million series with tags of 300 bytes come to 16 thousand rows and 7 MB a partition.
"""

_BATCH_MAX: Final = 50
_STEPS_MAX: Final = 40
_PAUSE_MAX_S: Final = 0.5
_THREADS: Final = 16
# So many changes of one shard within the minutes for which a change is pending are out of reach.
_SPREAD_MAX: Final = 1_000

EACH_QUORUM: Final[int] = ConsistencyLevel.EACH_QUORUM

T = TypeVar("T")
R = TypeVar("R")


def shard_of(series: str, shards: int) -> int:
    """Return the shard that lists a series; the same on every machine."""
    return zlib.crc32(series.encode()) % shards


@dataclass(frozen=True, slots=True)
class _Found:
    """A series as its row has it: the record without a void change, and the text of its widths."""

    record: SeriesRecord
    widths: str | None


class SeriesList:
    """The series of all tables of one keyspace.

    Args:
        link: The connection.
        statements: The catalog's CQL.
        shards_of: Over how many shards the series of a table are spread.
        keyspace: Where the catalog is.
    """

    def __init__(
        self,
        link: Link,
        statements: CatalogStatements,
        shards_of: Callable[[TableSpec], int],
        keyspace: str,
    ) -> None:
        self._link = link
        self._cql = statements
        self._shards_of = shards_of
        self._keyspace = keyspace
        self._tags = TagIndex(link, statements)

    # Entering

    def add(self, spec: TableSpec, records: Sequence[SeriesRecord]) -> tuple[SeriesRecord, ...]:
        """List series durably; return what the catalog has of each.

        Cost:
            For each shard that is touched a read, and a conditional batch where a series is new.
        """
        parts = self._by_shard(spec, {record.name: record for record in records})
        there: dict[str, SeriesRecord] = {}
        for entered in self._side_by_side(lambda part: self._add_part(spec, *part), parts):
            there.update(entered)
        return tuple(there[record.name] for record in records)

    def _by_shard(self, spec: TableSpec, items: Mapping[str, T]) -> list[tuple[int, dict[str, T]]]:
        count = self._shards_of(spec)
        shards: dict[int, list[str]] = {}
        for name in items:
            shards.setdefault(shard_of(name, count), []).append(name)
        return [
            (shard, {name: items[name] for name in inside[start : start + _BATCH_MAX]})
            for shard, inside in shards.items()
            for start in range(0, len(inside), _BATCH_MAX)
        ]

    def _side_by_side(self, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        if len(parts) < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(min(_THREADS, len(parts))) as pool:
            # The deadline of the call goes along to each thread.
            contexts = [copy_context() for _ in parts]
            return list(pool.map(lambda context, part: context.run(work, part), contexts, parts))

    def _add_part(
        self, spec: TableSpec, shard: int, wanted: Mapping[str, SeriesRecord]
    ) -> dict[str, SeriesRecord]:
        what = f"listing {len(wanted)} series of {spec.name}"

        def step(is_first: bool) -> dict[str, SeriesRecord] | None:
            found = self._find(spec, shard, wanted, is_serial=not is_first)
            there = {name: one.record for name, one in found.items()}
            new = [record for name, record in wanted.items() if name not in there]
            if not new:
                return there
            # First the index: an entry without a series is passed over, the other is not found.
            self._tags.add(spec, shard, {record.name: record.tags for record in new})
            self._enter(spec, shard, new, what)
            return None

        return self._until_seen(step, what)

    def _enter(
        self, spec: TableSpec, shard: int, records: Sequence[SeriesRecord], what: str
    ) -> None:
        key = (spec.name, spec.incarnation, shard)
        batch: list[tuple[str, tuple[Any, ...]]] = [
            (
                self._cql.enter_series,
                (*key, record.name, dict(record.tags) or None, _text_of(record.widths)),
            )
            for record in records
        ]
        logged = [record for record in records if record.widths]
        if logged:
            head = self._head(key, what)
            batch.append((self._cql.set_head, ((head or 0) + len(logged), *key, head)))
            batch += [
                (
                    self._cql.log_widths,
                    (*key, (head or 0) + place, record.name, _text_of(record.widths)),
                )
                for place, record in enumerate(logged, 1)
            ]
        self._link.write_if(batch, what=what, commit=self._commit_level())

    def _head(self, key: tuple[Any, ...], what: str) -> int | None:
        rows = self._link.query(
            self._cql.read_head, *key, what=what, consistency=ConsistencyLevel.SERIAL
        )
        return next((row["head"] for row in rows), None)

    def _until_seen(self, step: Callable[[bool], R | None], what: str) -> R:
        """Run a step until it finds what it wants in the catalog."""
        for number in range(_STEPS_MAX):
            try:
                result = step(number == 0)
            except EngineTimeoutError:
                # Whether it took place is seen by reading again.
                if number >= 2:
                    raise
                result = None
            if result is not None:
                return result
            if number:
                # Those who meet in a conditional write step apart.
                pause_s = random.uniform(0.0, min(0.01 * 2 ** min(number, 8), _PAUSE_MAX_S))  # noqa: S311
                time.sleep(pause_s)
        raise StoreBusyError(
            f"{what} did not come through in {_STEPS_MAX} steps: others change the same shard",
            hint="do it again",
        )

    def _commit_level(self) -> int:
        """Return the level of a commit: a quorum of every datacentre where there are several."""
        if self._link.datacentre_count(self._keyspace) > 1:
            return EACH_QUORUM
        return int(self._link.catalog_consistency)

    # Changing

    def set_tags(self, spec: TableSpec, name: str, tags: Mapping[str, str]) -> SeriesRecord:
        """Replace the tags of a listed series."""
        shard = shard_of(name, self._shards_of(spec))
        key = (spec.name, spec.incarnation, shard)
        what = f"setting the tags of {name} of {spec.name}"
        old: dict[str, str] = {}

        def step(is_first: bool) -> SeriesRecord | None:
            found = self._find(spec, shard, (name,), is_serial=True).get(name)
            record = listed_record(None if found is None else found.record, spec, name)
            if record.tags == tags:
                return record
            old.update(record.tags)
            self._tags.add(spec, shard, {name: tags})
            values = (dict(tags) or None, *key, name, dict(record.tags) or None)
            self._link.write_if(
                [(self._cql.set_tags, values)], what=what, commit=self._commit_level()
            )
            return None

        record = self._until_seen(step, what)
        gone = {tag: value for tag, value in old.items() if record.tags.get(tag) != value}
        self._tags.remove(spec, shard, name, gone)
        return record

    def set_width(
        self,
        spec: TableSpec,
        name: str,
        width: BucketWidth,
        *,
        now_s: Callable[[], float],
        lease_s: float = LEASE_S,
    ) -> SeriesRecord:
        """Change the width of a listed series from a date on.

        Args:
            spec: The table.
            name: The series.
            width: The width wanted.
            now_s: Returns the later one of the server's clock and the caller's.
            lease_s: How long a client may go on with the widths that it read.
        """
        shard = shard_of(name, self._shards_of(spec))
        key = (spec.name, spec.incarnation, shard)
        what = f"setting the bucket width of {name} of {spec.name}"
        is_acknowledged = False

        def step(is_first: bool) -> SeriesRecord | None:
            nonlocal is_acknowledged
            found = self._find(spec, shard, (name,), is_serial=True, lease_s=lease_s).get(name)
            record = listed_record(None if found is None else found.record, spec, name)
            assert found is not None  # listed_record saw to it
            present_s = now_s()
            history = plan_width(
                record.widths,
                width,
                spec.width,
                now_s=present_s,
                future_limit_s=spec.future_limit_s,
                lease_s=lease_s,
            )
            if history == record.widths:
                if not is_acknowledged and is_pending(history, present_s):
                    self._spread(spec, shard, name, what)
                return record
            head, text = self._head(key, what), _text_of(history)
            version = (head or 0) + 1
            batch = [
                (self._cql.set_widths, (text, *key, name, found.widths)),
                (self._cql.set_head, (version, *key, head)),
                (self._cql.log_widths, (*key, version, name, text)),
            ]
            self._link.write_if(batch, what=what, commit=self._commit_level())
            is_acknowledged = True
            return None

        return self._until_seen(step, what)

    def _spread(self, spec: TableSpec, shard: int, name: str, what: str) -> None:
        """Bring a change that nobody acknowledged to every replica, by reading it from them all.

        A quorum of all nodes has it, which may be all in one datacentre: the clients of another
        one would go on with the old width.
        """
        if self._commit_level() != EACH_QUORUM:
            return
        key = (spec.name, spec.incarnation, shard)
        everywhere = ConsistencyLevel.ALL
        since = max(0, (self._head(key, what) or 0) - _SPREAD_MAX)
        for cql, values in (
            (self._cql.find_series, (*key, [name])),
            (self._cql.read_widths, (*key, since)),
        ):
            list(self._link.query(cql, *values, what=what, consistency=everywhere))

    # Reading

    def load(
        self, spec: TableSpec, names: Iterable[str], *, lease_s: float = LEASE_S
    ) -> dict[str, SeriesRecord]:
        """Return the records of those that are listed."""
        parts = self._by_shard(spec, dict.fromkeys(names))
        found: dict[str, SeriesRecord] = {}
        for part in self._side_by_side(
            lambda part: self._find(spec, part[0], part[1], lease_s=lease_s), parts
        ):
            found.update({name: one.record for name, one in part.items()})
        return found

    def _find(
        self,
        spec: TableSpec,
        shard: int,
        names: Iterable[str],
        *,
        is_serial: bool = False,
        lease_s: float = LEASE_S,
    ) -> dict[str, _Found]:
        rows = self._link.query(
            self._cql.find_series,
            *(spec.name, spec.incarnation, shard, list(names)),
            what=f"looking for series of {spec.name}",
            consistency=ConsistencyLevel.SERIAL if is_serial else None,
        )
        found = {}
        for row in rows:
            history = _history_of(row, spec, lease_s)
            tags = dict(row["tags"] or {})
            record = SeriesRecord(name=row["series"], tags=tags, widths=history)
            found[record.name] = _Found(record, row["widths"])
        return found

    def read_widths(
        self, spec: TableSpec, seen: Mapping[int, int] | None, *, lease_s: float = LEASE_S
    ) -> WidthNews:
        """Return the histories that changed after the versions that were seen, by shard.

        Cost:
            One small read a shard.
        """
        versions = dict(seen or {})
        histories: dict[str, History] = {}
        shards = range(self._shards_of(spec))
        what = f"reading the bucket widths of {spec.name}"

        def read(shard: int) -> list[dict[str, Any]]:
            key = (spec.name, spec.incarnation, shard, versions.get(shard, 0))
            rows = list(self._link.query(self._cql.read_widths, *key, what=what))
            found = [row["version"] for row in rows]
            if found != list(range(key[-1] + 1, key[-1] + 1 + len(found))):
                # A version came here before the one that it follows: a serial read brings both.
                serial = ConsistencyLevel.SERIAL
                rows = list(
                    self._link.query(self._cql.read_widths, *key, what=what, consistency=serial)
                )
            return rows

        for shard, rows in zip(shards, self._side_by_side(read, shards), strict=True):
            for row in rows:
                versions[shard] = row["version"]
                histories[row["series"]] = _history_of(row, spec, lease_s)
        return WidthNews(histories=histories, seen=versions)

    def names(
        self, spec: TableSpec, *, prefix: str = "", tags: Mapping[str, str] | None = None
    ) -> Iterator[str]:
        """Yield the listed series that start with ``prefix`` and have ``tags``, by code point.

        Cost:
            One partition read a shard, and more pages as they are needed; with tags the entries of
            the rarest of them, and a look for each hundred of those.
        """
        shards = range(self._shards_of(spec))
        if not tags:
            return heapq.merge(*(self._names_of_shard(spec, shard, prefix) for shard in shards))
        rarest = self._tags.rarest(spec, tags)
        return heapq.merge(
            *(self._tagged_names(spec, shard, prefix, rarest, tags) for shard in shards)
        )

    def _names_of_shard(self, spec: TableSpec, shard: int, prefix: str) -> Iterator[str]:
        # CQL orders text by its UTF-8 bytes, which is the order of code points.
        rows = self._link.query(
            self._cql.list_series,
            *(spec.name, spec.incarnation, shard, prefix),
            what=f"listing the series of {spec.name}",
        )
        for row in rows:
            if not row["series"].startswith(prefix):
                return
            yield row["series"]

    def _tagged_names(
        self,
        spec: TableSpec,
        shard: int,
        prefix: str,
        rarest: tuple[str, str],
        tags: Mapping[str, str],
    ) -> Iterator[str]:
        # The index may have an entry too many, of a change that did not come through: the series
        # itself says which tags it has.
        for names in self._tags.candidates(spec, shard, prefix, rarest):
            found = self._find(spec, shard, names)
            for name in names:
                if name in found and found[name].record.has_tags(tags):
                    yield name

    def count(self, spec: TableSpec) -> int:
        """Return how many series are listed."""
        return sum(
            row["n"]
            for shard in range(self._shards_of(spec))
            for row in self._link.query(
                self._cql.count_series,
                *(spec.name, spec.incarnation, shard),
                what=f"counting the series of {spec.name}",
            )
        )

    def remove(self, spec: TableSpec, names: tuple[str, ...]) -> None:
        """Take series off the list, durably, with their tags and widths."""
        for name in names:
            self._remove_one(spec, name)

    def _remove_one(self, spec: TableSpec, name: str) -> None:
        shard = shard_of(name, self._shards_of(spec))
        key = (spec.name, spec.incarnation, shard)
        what = f"removing the series {name} of {spec.name} from the catalog"
        tags: dict[str, str] = {}

        def step(is_first: bool) -> bool | None:
            found = self._find(spec, shard, (name,), is_serial=True).get(name)
            if found is None:
                return True
            tags.update(found.record.tags)
            batch: list[tuple[str, tuple[Any, ...]]] = [(self._cql.remove_series, (*key, name))]
            if found.widths is not None:
                head = self._head(key, what)
                version = (head or 0) + 1
                # Everyone who holds the widths learns that there are none any more.
                batch.append((self._cql.set_head, (version, *key, head)))
                batch.append((self._cql.log_widths, (*key, version, name, history_to_text(()))))
            self._link.write_if(batch, what=what, commit=self._commit_level())
            return None

        self._until_seen(step, what)
        self._tags.remove(spec, shard, name, tags)

    def drop(self, name: str, incarnation: int, shards: int) -> None:
        """Remove the list of a table's series, and what the index has of them."""
        what = f"removing the series of {name} from the catalog"
        for shard in range(shards):
            key = (name, incarnation, shard)
            rows = self._link.query(self._cql.tags_of_shard, *key, what=what)
            pairs = {pair for row in rows for pair in (row["tags"] or {}).items()}
            for tag, value in pairs:
                self._tags.drop(name, incarnation, shard, tag, value)
            self._link.write(self._cql.drop_series, *key, what=what)


def _text_of(history: History) -> str | None:
    return history_to_text(history) if history else None


def _history_of(row: Mapping[str, Any], spec: TableSpec, lease_s: float) -> History:
    return valid_history(
        history_from_text(row["widths"]),
        row["written_us"] or 0,
        future_limit_s=spec.future_limit_s,
        lease_s=lease_s,
    )
