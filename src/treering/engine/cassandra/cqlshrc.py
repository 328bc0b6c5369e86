"""What cqlsh is configured with, as far as it says how to connect.

Rules of this file: cqlsh's own meaning of each key; nothing of a file's lines reaches a message,
since a line may hold a password.
"""

from __future__ import annotations

import configparser
import logging
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from treering.errors import UsageError

VARIABLE: Final = "TREERING_CQLSHRC"
# Where cqlsh keeps options under other names than an address of a store does.
_OPTIONS: Final = (
    ("hosts", "connection", "hostname"),
    ("port", "connection", "port"),
    ("timeout", "connection", "request_timeout"),
    ("connect_timeout", "connection", "timeout"),
    ("tls", "connection", "ssl"),
    ("ca", "ssl", "certfile"),
    ("cert", "ssl", "usercert"),
    ("key", "ssl", "userkey"),
)
_LOGIN_SECTIONS: Final = ("PlainTextAuthProvider", "plain_text_auth")
_YES: Final = {"true", "yes", "on", "1"}
_NO: Final = {"false", "no", "off", "0"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cqlshrc:
    """What a cqlshrc says.

    Attributes:
        path: The file.
        options: Texts by the names that an address of a store uses.
        username: Who logs in.
        password: With what; never shown.
    """

    path: str
    options: Mapping[str, str]
    username: str | None = None
    password: str | None = field(default=None, repr=False)


def read_cqlshrc(environ: Mapping[str, str]) -> Cqlshrc | None:
    """Return what cqlsh's file says: TREERING_CQLSHRC, or ``~/.cassandra/cqlshrc`` if it is there.

    An empty TREERING_CQLSHRC means that none is read.

    Raises:
        UsageError: The file that was named is not there, or cannot be read as a cqlshrc.
    """
    named = environ.get(VARIABLE)
    if named == "" or (named is None and not environ.get("HOME")):
        return None
    home = Path(environ.get("HOME") or "~").expanduser()
    path = Path(named).expanduser() if named else home / ".cassandra" / "cqlshrc"
    if not path.is_file():
        if named:
            raise UsageError(f"{VARIABLE} names {path}, and there is no such file")
        return None
    config = _read(path)
    username, password = _login_of(config, path)
    return Cqlshrc(
        path=str(path), options=_options_of(config), username=username, password=password
    )


def _read(path: Path) -> configparser.RawConfigParser:
    config = configparser.RawConfigParser(strict=False, inline_comment_prefixes=None)
    try:
        config.read_string(path.read_text(encoding="utf-8"))
    except (configparser.Error, UnicodeDecodeError, OSError) as error:
        # The error's own words may repeat a line of the file, so they are left out.
        raise UsageError(
            f"{path} cannot be read as a cqlshrc ({type(error).__name__}{_line_of(error)})",
            hint="it has sections such as [connection], each with lines key = value",
        ) from None
    return config


def _line_of(error: Exception) -> str:
    lines = [number for number, _ in getattr(error, "errors", ())] or [getattr(error, "lineno", 0)]
    return f", line {lines[0]}" if lines[0] else ""


def _options_of(config: configparser.RawConfigParser) -> dict[str, str]:
    options = {
        name: value
        for name, section, key in _OPTIONS
        if (value := config.get(section, key, fallback="").strip())
    }
    validate = config.get("ssl", "validate", fallback="").strip().lower()
    if validate:
        # cqlsh looks at the authority and not at the address.
        options["verify"] = "none" if validate in _NO else "ca"
    for name in ("timeout", "connect_timeout"):
        # cqlsh counts in seconds and writes no unit.
        if options.get(name, "").replace(".", "", 1).isdigit():
            options[name] += "s"
    if "tls" in options:
        options["tls"] = "true" if options["tls"].lower() in _YES else "false"
    return options


def _login_of(config: configparser.RawConfigParser, path: Path) -> tuple[str | None, str | None]:
    username = config.get("authentication", "username", fallback="") or None
    password = config.get("authentication", "password", fallback="") or None
    holder = path
    separate = config.get("authentication", "credentials", fallback="")
    if separate and password is None:
        holder = Path(separate).expanduser()
        if holder.is_file():
            login = _read(holder)
            for section in _LOGIN_SECTIONS:
                username = username or login.get(section, "username", fallback="") or None
                password = password or login.get(section, "password", fallback="") or None
    if password is not None and holder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        log.warning("%s holds a password, and others may read it: chmod 600 it", holder)
    return username, password
