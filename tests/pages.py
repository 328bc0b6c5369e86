"""A page's readings in one piece, for tests that do not care in how many an engine has them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from treering.core.columns import ColumnData, concat_columns
from treering.core.schema import Column
from treering.engine.protocol import Page


def times_of(page: Page) -> npt.NDArray[np.int64]:
    """Return the event times of a page."""
    return np.concatenate([np.empty(0, dtype=np.int64), *(ts for ts, _ in page.parts)])


def column_of(page: Page, column: Column) -> ColumnData:
    """Return a column of a page."""
    return concat_columns([columns[column.name] for _, columns in page.parts], column.type)
