"""Ends the nodes of a process that died without stopping them.

Runs as a program of its own, standard library only. It reads the pids of nodes from its standard
input, ``+pid`` for a start and ``-pid`` for an end; ``done`` means that the owner stopped in
order. The end of the input without ``done`` means that the owner is dead, however it died.

Usage: python watchdog.py NODE_MARK FOLDER_TO_REMOVE_OR_EMPTY
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from pathlib import Path


def watch(lines: Iterable[str], *, mark: str, folder: str) -> None:
    """Read ``lines`` to their end, then kill what still runs and remove ``folder``."""
    running: set[int] = set()
    for line in lines:
        word = line.strip()
        if word == "done":
            return
        pid = int(word[1:])
        running = running | {pid} if word.startswith("+") else running - {pid}
    for pid in running:
        if mark in _command_of(pid, unknown=mark):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    if folder:
        # A node that is being killed may still create a file: a few rounds, then it is gone.
        for _ in range(100):
            shutil.rmtree(folder, ignore_errors=True)
            if not Path(folder).exists():
                return


def _command_of(pid: int, *, unknown: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return unknown


if __name__ == "__main__":
    watch(sys.stdin, mark=sys.argv[1], folder=sys.argv[2])
