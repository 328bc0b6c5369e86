"""Forks of a process that has a store open: the child inherits no open connection."""

from __future__ import annotations

import os
import weakref
from functools import partial
from typing import Protocol


class Forked(Protocol):
    """What closes its files around a fork."""

    def before_fork(self) -> None:
        """Close all files."""
        ...

    def after_fork(self, *, in_child: bool) -> None:
        """Go on, in the parent or in the child."""
        ...


def keep_out_of_forks(engine: Forked) -> None:
    """Have an engine close its files around every fork of this process, while it lives."""
    # A hook cannot be taken back, so it must not keep the engine alive.
    alive = weakref.ref(engine)

    def before() -> None:
        engine = alive()
        if engine is not None:
            engine.before_fork()

    def after(*, in_child: bool) -> None:
        engine = alive()
        if engine is not None:
            engine.after_fork(in_child=in_child)

    os.register_at_fork(
        before=before,
        after_in_parent=partial(after, in_child=False),
        after_in_child=partial(after, in_child=True),
    )
