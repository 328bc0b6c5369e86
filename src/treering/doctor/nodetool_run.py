"""Running ``nodetool`` for a node, by a command that somebody wrote down.

Rules of this file: no shell; a run has a bound in time and in what it prints, and nothing that it
started is left; the command may hold a password, so no message holds more of it than its program.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import IO, Final

from treering.errors import EngineError, EngineTimeoutError, UsageError

PLACE: Final = "{node}"
"""What stands for the node in a command."""

PRINTED_BYTES_MAX: Final = 64 * 1024 * 1024
_SAID_BYTES_MAX: Final = 64 * 1024
_SHOWN: Final = 200
_POLL_S: Final = 0.02
# What starts with a dash would be an option to ssh or kubectl.
_NODE: Final = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:%\]-]{0,252}")
_ARGUMENT: Final = re.compile(r"[A-Za-z0-9_]{1,256}|-F")
_SECRET_FLAGS: Final = ("-pw", "--password")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodetoolCommand:
    """How to run nodetool for a node.

    Attributes:
        words: The command, word by word; ``{node}`` in them stands for the node.
        names: What ``{node}`` is for an address where it is not the address itself, such as the
            name of a pod.
    """

    words: tuple[str, ...] = field(repr=False)
    names: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str, names: Mapping[str, str] | None = None) -> NodetoolCommand:
        """Return the command that a text names, split as a shell splits it.

        Raises:
            UsageError: Nothing is there, or a quotation does not end.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            raise UsageError(
                f"the command for nodetool cannot be split into words: {error}",
                hint="write it as for a shell, such as 'ssh {node} nodetool'",
            ) from error
        if not words:
            raise UsageError(
                "the command for nodetool is empty", hint="such as 'ssh {node} nodetool'"
            )
        return cls(words=words, names=dict(names or {}))

    @property
    def names_node(self) -> bool:
        """Whether the command says which node; it speaks to one node alone where it does not."""
        return any(PLACE in word for word in self.words)

    def run(self, node: str, *args: str, timeout_s: float) -> str:
        """Run nodetool for a node and return what it printed, its notices first.

        Args:
            node: The node's address.
            args: nodetool's arguments: words of letters, digits and underscores.
            timeout_s: How long it may take.

        Raises:
            EngineTimeoutError: It took longer, and was ended.
            EngineError: It could not be started, failed, or printed too much.
            UsageError: A node or an argument that could mean something else to a shell.
        """
        named = self.names.get(node, node)
        if not _NODE.fullmatch(named):
            raise UsageError(f"{named!r} is not put into a command: it is no address of a node")
        for arg in args:
            if not _ARGUMENT.fullmatch(arg):
                raise UsageError(f"{arg!r} is not put into a command: it is no plain name")
        words = [word.replace(PLACE, named) for word in self.words]
        what = f"nodetool {args[0] if args else ''} through {words[0]}"
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            code = _run([*words, *args], out=out, said=said, what=what, timeout_s=timeout_s)
            notices = _text_of(said, _SAID_BYTES_MAX)
            printed = _text_of(out, PRINTED_BYTES_MAX)
        if code != 0:
            why = self._without_secrets(_last_line(notices) or _last_line(printed))
            raise EngineError(f"{what} ended with exit code {code}: {why}")
        return f"{notices}\n{printed}"

    def _without_secrets(self, text: str) -> str:
        words = " ".join(self.words).split()
        secrets = [word for flag, word in pairwise(words) if flag in _SECRET_FLAGS]
        secrets += [word.partition("=")[2] for word in words if word.startswith("--password=")]
        for secret in secrets:
            text = text.replace(secret, "…") if secret else text
        return text


def _run(
    command: list[str], *, out: IO[bytes], said: IO[bytes], what: str, timeout_s: float
) -> int:
    """Run a command in a process group of its own, and end the group where it takes too long."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            # Files and not pipes: a grandchild that keeps one open holds nobody up.
            stdout=out,
            stderr=said,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a word that no command takes"
        raise EngineError(f"{what} cannot be started: {reason}") from None
    deadline = time.monotonic() + timeout_s
    try:
        while (code := process.poll()) is None:
            if time.monotonic() >= deadline:
                raise EngineTimeoutError(f"{what} did not end within {timeout_s:.0f} s")
            for file, most in ((out, PRINTED_BYTES_MAX), (said, PRINTED_BYTES_MAX)):
                if os.fstat(file.fileno()).st_size > most:
                    raise EngineError(f"{what} printed more than {most} bytes")
            time.sleep(_POLL_S)
        return code
    except BaseException:
        # Not reaped yet, so the number is still the group's. What a command that ended in order
        # leaves behind, such as a shared connection of ssh, is its own.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _text_of(file: IO[bytes], most: int) -> str:
    file.seek(0)
    return file.read(most).decode(errors="replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # A stack trace says least in its last lines.
    said = [line for line in lines if not line.startswith(("at ", "--", "..."))]
    line = next((line for line in said if line.lower().startswith(("error", "nodetool:"))), "")
    shown = line or (said[-1] if said else "")
    return "".join(char if char.isprintable() else " " for char in shown[:_SHOWN])
