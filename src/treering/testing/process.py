"""One node's process, the ports it listens on, and the watchdog that outlives its owner."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from treering.testing import watchdog
from treering.testing.faults import NodeError

# Below the range from which Linux takes the ports of outgoing connections: a stopped node finds
# its port free when it comes back.
_PORT_FIRST: Final = 20_000
_PORT_END: Final = 32_000
_PORT_TRIES: Final = 1_000
_POLL_S: Final = 0.05


class NodeProcess:
    """The process of one node: a child of this process, or one that an earlier command left.

    Args:
        pid: Its process id.
        mark: An argument of its command line that no other process has.
        child: The handle, where this process started it.
    """

    def __init__(self, pid: int, *, mark: str, child: subprocess.Popen[bytes] | None = None):
        self.pid = pid
        self._mark = mark
        self._child = child

    @classmethod
    def launch(cls, command: Sequence[str], *, log_file: Path, mark: str) -> NodeProcess:
        """Start ``command`` in a session of its own, its output appended to ``log_file``.

        A session of its own, so that Ctrl-C in a terminal reaches the owner and not the node.
        """
        with log_file.open("ab") as out:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=log_file.parent,
            )
        return cls(child.pid, mark=mark, child=child)

    def is_running(self) -> bool:
        """Whether the process exists and is this node (a pid may have been given away)."""
        if self._child is not None:
            return self._child.poll() is None
        return self._mark in command_of(self.pid)

    def exit_code(self) -> int | None:
        """The exit code of an ended child; ``None`` while it runs or where it is not known."""
        return None if self._child is None else self._child.poll()

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens where the process has gone."""
        if self.is_running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, *, graceful_s: float) -> None:
        """End the process and wait until it has gone: asked first, killed after ``graceful_s``.

        Raises:
            NodeError: It is still there half a minute after it was killed.
        """
        if graceful_s > 0:
            self.send(signal.SIGCONT)  # A paused process would not see the request.
            self.send(signal.SIGTERM)
            if wait_for(lambda: not self.is_running(), timeout_s=graceful_s):
                return
        self.send(signal.SIGKILL)
        if not wait_for(lambda: not self.is_running(), timeout_s=30.0):
            raise NodeError(f"the node's process {self.pid} is still there after SIGKILL")


class Watchdog:
    """A small process that ends the nodes and removes the folder if this process dies."""

    def __init__(self, *, mark: str, folder: Path | None) -> None:
        self._child = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", watchdog.__file__),
                *(mark, "" if folder is None else str(folder)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def tell(self, word: str) -> None:
        """Send ``+pid``, ``-pid`` or ``done``."""
        pipe = self._child.stdin
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError, ValueError):
                pipe.write(f"{word}\n".encode())
                pipe.flush()

    def close(self) -> None:
        """Say that everything was stopped in order, and wait until the watchdog has gone."""
        self.tell("done")
        if self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()
        self._child.wait()


def command_of(pid: int) -> str:
    """Return the command line of a process, arguments joined by spaces; empty if it has gone.

    A process that has ended but was not yet collected by its parent has no command line.
    """
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            return ""
    asked = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout


def wait_for(holds: Callable[[], bool], *, timeout_s: float, poll_s: float = _POLL_S) -> bool:
    """Ask ``holds`` until it is true; return whether it was within ``timeout_s``."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll_s)
    return True


def free_ports(count: int, addresses: Sequence[str]) -> tuple[int, ...]:
    """Return ports that nobody listens on at any of ``addresses``.

    Raises:
        NodeError: An address does not exist here, or no port is free.
    """
    draw = random.SystemRandom()
    found: list[int] = []
    for _ in range(_PORT_TRIES):
        port = draw.randrange(_PORT_FIRST, _PORT_END)
        if port not in found and all(is_port_free(address, port) for address in addresses):
            found.append(port)
        if len(found) == count:
            return tuple(found)
    raise NodeError(
        f"no {count} free ports on {', '.join(addresses)} in {_PORT_TRIES} tries",
        hint="do the addresses exist? On macOS: sudo ifconfig lo0 alias 127.0.0.2",
    )


def is_port_free(address: str, port: int) -> bool:
    """Whether a server could listen on ``address``:``port`` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a Java server does: connections that linger after a close do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError:
            return False
    return True
