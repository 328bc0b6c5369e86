"""When a reading dies, and when the file that holds it may go: the one place for these rules.

Rules of this file: a cell expires at the coordinator's clock plus its TTL, whatever write time it
carries; every comparison with gc_before is strict; a TTL under one second is never sent; TTL 0
and null mean "never" to Cassandra, so neither leaves this module.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from treering.core.server import ServerVersion, StorageMode
from treering.errors import DesignError

TTL_MAX_S: Final = 20 * 365 * 86_400
"""The longest TTL of any version: 20 years of 365 days, 630,720,000 s (``Attributes``)."""

EXPIRY_MAX_S: Final = 2**31 - 2
"""The last expiry of a signed second counter, 2038-01-19T03:14:06Z (``Cell``)."""

EXPIRY_MAX_UNSIGNED_S: Final = 2**32 - 3
"""The last expiry of an unsigned second counter, 2106-02-07T06:28:13Z (``Cell``, 5.0)."""

HINT_WINDOW_S: Final = 3 * 3_600
"""How long hints are kept for a node that is down (``max_hint_window``'s default)."""

EXPIRED_CHECK_S: Final = 600
"""How often TWCS looks for expired files (``expired_sstable_check_frequency_seconds``)."""


def gc_before_s(now_s: int, gc_grace_s: int) -> int:
    """Return the second before which a deletion time must lie for its cell to be purged.

    Mirrors ``ColumnFamilyStore.gcBefore``, 3.11 to 5.0.
    """
    return now_s - gc_grace_s


def is_fully_expired(max_deletion_s: int | None, gc_before_s: int) -> bool:
    """Return whether every cell of a file expired before gc_before; strictly before.

    Mirrors ``CompactionController.getFullyExpiredSSTables``, 3.11 to 5.0.

    Args:
        max_deletion_s: The file's newest deletion time, epoch seconds; None where one cell
            never expires.
        gc_before_s: As :func:`gc_before_s` returns it.
    """
    return max_deletion_s is not None and max_deletion_s < gc_before_s


def expiry_cap_s(version: ServerVersion | str, mode: StorageMode | str) -> int:
    """Return the last second at which a cell may expire.

    Mirrors ``Cell.getVersionedMaxDeletiontionTime``. Mode UPGRADING counts as the lower cap: it
    moves only when the last node speaks the new protocol, and a design cannot know that.
    """
    version = ServerVersion.from_text(version) if isinstance(version, str) else version
    if version.major >= 5 and StorageMode(mode) is StorageMode.NONE:
        return EXPIRY_MAX_UNSIGNED_S
    return EXPIRY_MAX_S


def ttl_max_at_s(now_s: int, version: ServerVersion | str, mode: StorageMode | str) -> int:
    """Return the longest TTL, in seconds, that a write at ``now_s`` may carry; may be < 1."""
    return min(TTL_MAX_S, expiry_cap_s(version, mode) - now_s)


def check_ttl(
    ttl_s: int, now_s: int, version: ServerVersion | str, mode: StorageMode | str
) -> None:
    """Refuse a TTL that a write at ``now_s`` could not carry.

    Args:
        ttl_s: Lifetime in seconds.
        now_s: The coordinator's clock, epoch seconds.
        version: The server's version.
        mode: The server's storage compatibility mode; counts on Cassandra 5 only.

    Raises:
        DesignError: Under one second, above 20 years, or past the expiry cap.
    """
    version = ServerVersion.from_text(version) if isinstance(version, str) else version
    if ttl_s < 1:
        raise DesignError(
            f"a TTL of {ttl_s} s is no lifetime: Cassandra takes 0 for never and refuses less",
            hint="give at least 1 s, or keep the data for ever by name",
            ttl_s=ttl_s,
        )
    if ttl_s > TTL_MAX_S:
        raise DesignError(
            f"a TTL of {ttl_s:,} s is above Cassandra's limit of {TTL_MAX_S:,} s (20 years)",
            hint="choose a shorter retention, or keep the data for ever",
            ttl_s=ttl_s,
            ttl_max_s=TTL_MAX_S,
        )
    cap_s = expiry_cap_s(version, mode)
    if now_s + ttl_s > cap_s:
        raise _past_cap(ttl_s, now_s, cap_s, version)


def _past_cap(ttl_s: int, now_s: int, cap_s: int, version: ServerVersion) -> DesignError:
    then = (
        "the write is refused"
        if version.checks_expiry_cap
        else "this version overflows and loses the reading without an error"
    )
    hint = f"the longest TTL a write may carry now is {max(cap_s - now_s, 0):,} s"
    if version.major >= 5 and cap_s == EXPIRY_MAX_S:
        hint += "; storage mode NONE moves the cap to 2106"
    elif version.major < 5:
        hint += "; Cassandra 5 in storage mode NONE moves the cap to 2106"
    return DesignError(
        f"a TTL of {ttl_s:,} s ends after {render_day(cap_s)}, the last expiry that Cassandra "
        f"{version} can store: {then}",
        hint=hint,
        ttl_s=ttl_s,
        ttl_max_s=max(cap_s - now_s, 0),
        expiry_cap_s=cap_s,
    )


def render_day(ts_s: int) -> str:
    """Return the UTC day of an instant, such as ``2038-01-19``."""
    return str(np.datetime64(ts_s, "s").astype("datetime64[D]"))


def refused_from_s(ttl_s: int, version: ServerVersion | str, mode: StorageMode | str) -> int:
    """Return the first second at which a write with this TTL would pass the expiry cap."""
    return expiry_cap_s(version, mode) - ttl_s + 1


def ttl_for_age(age_s: float, retention_s: int, window_s: int) -> int | None:
    """Return the TTL that a reading of this age gets.

    A reading of the current window gets the whole retention, which is the table's default and
    need not be sent. An older one gets what remains of its retention, rounded up to whole windows
    so that the readings of one write share few TTLs; it never outlives an on-time reading that
    was written at the same moment.

    Args:
        age_s: Write time minus event time, seconds; negative for a reading ahead of the clock.
        retention_s: How long a reading must stay readable.
        window_s: Length of a compaction window.

    Returns:
        Seconds, at least 1; None for a reading that has expired (less than a second remains).

    >>> ttl_for_age(3 * 86_400, 30 * 86_400, 86_400) // 86_400
    27
    """
    remaining_s = retention_s - age_s
    if remaining_s < 1:
        return None
    if age_s < window_s:
        return retention_s
    return min(math.ceil(remaining_s / window_s) * window_s, retention_s)


def ttls_for_ages(
    age_s: npt.NDArray[np.int64], retention_s: int, window_s: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return the TTL of every age, and which readings have expired.

    The array twin of :func:`ttl_for_age` for whole seconds; a property test holds them equal.

    Returns:
        TTLs in seconds (without meaning where expired) and the mask of expired readings, both of
        the shape of ``age_s``.
    """
    remaining_s = retention_s - age_s
    rounded_s = np.minimum(-(-remaining_s // window_s) * window_s, retention_s)
    ttl_s = np.where(age_s < window_s, np.int64(retention_s), rounded_s)
    return ttl_s, remaining_s < 1


def index_ttl_s(
    retention_s: int | None,
    *,
    bucket_s: int,
    window_s: int,
    future_s: int,
    ttl_max_s: int,
) -> int | None:
    """Return the TTL of the entry that says that a bucket exists.

    The entry must outlive the last reading that can reach its bucket: one written at the
    bucket's end, ahead of the clock by the future limit, with a TTL rounded up to a window.

    Args:
        retention_s: The readings' retention; None for ever.
        bucket_s: Length of a bucket.
        window_s: Length of a window.
        future_s: How far ahead of the clock a reading may be.
        ttl_max_s: As :func:`ttl_max_at_s` returns it.

    Returns:
        Seconds; None where the entry must carry no TTL, because the sum passes the limit although
        the readings' own TTL does not.
    """
    if retention_s is None:
        return None
    ttl_s = retention_s + bucket_s + window_s + future_s
    return ttl_s if ttl_s <= ttl_max_s else None
