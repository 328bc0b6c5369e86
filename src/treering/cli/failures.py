"""What a failed command prints and exits with.

Rules of this file: one line says what happened, one what to do, both on standard error; a
traceback only where ``--debug`` asks for it; a reader that goes away is no error to report.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from treering.errors import TreeringError

FAILED: Final = 1
USAGE: Final = 2
INCOMPLETE: Final = 3
INTERRUPTED: Final = 128 + signal.SIGINT
# Typer carries its own Click or uses the one installed; this class is the right one either way.
_UsageFault: Final[type[Exception]] = typer.BadParameter.__mro__[1]

_INTERRUPTED_HINT: Final = "run it again: what was acknowledged stays, and nothing is doubled"

# What a shell reports for a program that SIGPIPE ended.
PIPE_CLOSED: Final = 128 + signal.SIGPIPE


class Commands(TyperGroup):
    """The group of all commands: turns errors into messages and exit codes."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Read the options; what is wrong with them is said as any other error is."""
        # Reading them empties the list.
        as_json, is_said = "--json" in args, bool(args)
        try:
            return super().make_context(info_name, args, parent, **extra)
        except _UsageFault as error:
            # Help where nothing was said is no error, though Click counts it as one.
            if not is_said:
                raise
            _report(*_usage_text(error), as_json, "usage")
            sys.exit(USAGE)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; errors become one line each and an exit code."""
        args = [*getattr(ctx, "_protected_args", []), *ctx.args]
        flags = set(args[: args.index("--")] if "--" in args else args)
        as_json = "--json" in flags
        try:
            result = _flushed(lambda: super(Commands, self).invoke(ctx))
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            _report("interrupted", _INTERRUPTED_HINT, as_json, "interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:  # noqa: BLE001  # the last place where one can be shown
            if "--debug" in flags:
                traceback.print_exc()
            _fail(error, as_json=as_json)
        return result


def _flushed(command: Callable[[], Any]) -> Any:
    # A reader that went away must show here, whatever the exit code, and not at interpreter exit.
    try:
        return command()
    finally:
        sys.stdout.flush()


def _fail(error: Exception, *, as_json: bool) -> NoReturn:
    from treering.errors import TreeringError

    if isinstance(error, _UsageFault):
        _report(*_usage_text(error), as_json, "usage")
        raise typer.Exit(USAGE) from error
    match error:
        case BrokenPipeError():
            _leave_quietly()
        case TreeringError():
            hint = error.facts.get("cli_hint", error.hint)
            _report(error.message, hint, as_json, type(error).__name__)
            raise typer.Exit(exit_code_of(error)) from error
        case OSError():
            _report(_os_message(error), _os_hint(error), as_json, type(error).__name__)
            raise typer.Exit(FAILED) from error
    _report(
        f"{type(error).__name__}: {error}",
        "this is a fault of treering; --debug shows where",
        as_json,
        type(error).__name__,
    )
    raise typer.Exit(FAILED) from error


def _usage_text(error: Any) -> tuple[str, str]:
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "treering"
    text = error.format_message() if hasattr(error, "format_message") else str(error)
    return " ".join(text.split()).rstrip("."), f"see {command} --help"


def exit_code_of(error: TreeringError) -> int:
    """Return 2 for what the caller can fix, else 1."""
    from treering.errors import UsageError

    return USAGE if isinstance(error, UsageError) else FAILED


def _os_message(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename is not None else ""
    return f"{where}{error.strerror or error}"


def _os_hint(error: OSError) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError() | IsADirectoryError():
            return "check the name of the file"
        case PermissionError():
            return "check who may read and write there"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return "free space there, and run it again"
        case _:
            return "check the disk and the permissions there"


def _leave_quietly() -> NoReturn:
    # Python flushes standard output once more at exit, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise typer.Exit(PIPE_CLOSED)


def _report(message: str, hint: str, as_json: bool, kind: str) -> None:
    if as_json:
        text = json.dumps({"error": message, "hint": hint, "kind": kind}, ensure_ascii=False)
    else:
        # One line each, whatever a driver or a file put into the message.
        text = f"error: {' '.join(message.split())}"
        if hint:
            text += f"\nhint: {hint}"
    print(text, file=sys.stderr)
