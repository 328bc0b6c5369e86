"""How many bytes of a file have expired, as far as its drop times tell.

Rules of this file: an estimate by count of rows and cells, never by the tombstone ratio, whose
upper part counts row markers that its lower part leaves out.
"""

from __future__ import annotations

import numpy as np

from treering.core.units import DAY_S
from treering.doctor.checks.node_files import NodeFiles
from treering.sstable.facts import SSTableFacts


def expired_share(file: SSTableFacts, gc_before_s: int) -> float:
    """Return about which share of a file expired before gc_before, from 0.0 to 1.0.

    Rows and cells without a TTL count as never; what has one is counted by its deletion time.
    """
    known = file.deletions.count
    if not known:
        return 0.0
    if file.max_deletion_s is not None and file.max_deletion_s < gc_before_s:
        return 1.0
    total = known if file.max_deletion_s is not None else max(known, file.rows + file.columns_set)
    return gone_before(file, gc_before_s) / total


def gone_before(file: SSTableFacts, moment_s: int) -> int:
    """Return how many rows and cells of a file have a drop time of at most a moment.

    The server's own sum adds a share of the next point, which in a file of few points may be most
    of the file; here a point counts when it has passed.
    """
    passed = int(np.searchsorted(file.deletions.points_s, moment_s, side="right"))
    return int(file.deletions.counts[:passed].sum())


def overdue_bytes(files: NodeFiles, index: int) -> int:
    """Return about how many bytes of a file have expired for longer than the schedule allows."""
    file = files.files[index]
    return int((file.data_bytes or 0) * expired_share(file, files.gc_before_s - grace_of(files)))


def grace_of(files: NodeFiles) -> int:
    """Return how long past grace expired rows may stay in a healthy table.

    With windows, until the window and the next one have ended and the server has looked. Without,
    until a compaction comes by: a tenth of the TTL, a day at the most.
    """
    if files.overdue_max_s is not None:
        return files.overdue_max_s
    if files.twcs is not None:
        return files.slack_s()
    return min((files.ttl_s or 0) // 10, DAY_S) + files.check_s
