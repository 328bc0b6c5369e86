"""Embedded engines that seal at moments at which none would in use, to show that no read tells."""

from __future__ import annotations

import random
from concurrent.futures import Future
from typing import Any, Final

from treering.core.delete_plan import PartitionDelete
from treering.core.table import TableSpec
from treering.core.write_plan import PartitionWrite
from treering.engine.sqlite import SqliteEngine
from treering.engine.sqlite.block_table import SealRules

END_S: Final = 10**11
"""A present at which every span is closed."""

ALWAYS: Final = SealRules(
    bulk_rows=10**9, rows_min=1, block_rows_max=5, block_rows_full=3, span_s=1_800
)
"""Blocks so small that a test of a few readings cuts them, and no reading alone enough to wait."""


class EagerEngine(SqliteEngine):
    """Seals all that there is after every write and every deletion."""

    def submit_write(self, spec: TableSpec, write: PartitionWrite) -> Future[None]:
        return self._sealed(spec, super().submit_write(spec, write))

    def submit_writes(self, spec: TableSpec, writes: tuple[PartitionWrite, ...]) -> Future[None]:
        return self._sealed(spec, super().submit_writes(spec, writes))

    def submit_delete(self, spec: TableSpec, delete: PartitionDelete) -> Future[None]:
        return self._sealed(spec, super().submit_delete(spec, delete))

    def _sealed(self, spec: TableSpec, done: Future[None]) -> Future[None]:
        if done.exception() is None:
            report = self.seal(spec, now_s=END_S)
            assert report.problems == ()
        return done


class RandomEngine(EagerEngine):
    """Seals after about one write in three, with a seed."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._random = random.Random(5)

    def _sealed(self, spec: TableSpec, done: Future[None]) -> Future[None]:
        if self._random.random() < 1 / 3:
            return super()._sealed(spec, done)
        return done
