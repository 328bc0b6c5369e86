"""How to connect: what the address says, else the environment, else cqlsh's file, else a default.

Rules of this file: one order for every option; a wrong value names where it stands; a password is
never sent for another user than the one that it was written down with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from treering.engine.cassandra.cqlshrc import Cqlshrc, read_cqlshrc
from treering.engine.cassandra.url import OPTION_NAMES, CassandraUrl, Stated, parse_url
from treering.errors import UsageError


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who logs in; the password is never shown."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that is needed to connect.

    Attributes:
        url: Where, and how.
        credentials: Who logs in; None where nobody does.
    """

    url: CassandraUrl
    credentials: Credentials | None


VARIABLES: Final = {name: f"TREERING_{name.upper()}" for name in OPTION_NAMES}
"""The environment's variable of each option of an address."""


def read_settings(url: str | CassandraUrl, environ: Mapping[str, str]) -> Settings:
    """Return how to connect to a store.

    Args:
        url: Its address; as a value it is taken as it stands, and only the login is looked for.
        environ: The environment; its HOME is where cqlsh's file is looked for.

    Raises:
        UsageError: A wrong address, a wrong value anywhere, half of the credentials.
    """
    cqlshrc = read_cqlshrc(environ)
    if isinstance(url, str):
        url = _url_of(url, environ, cqlshrc)
    return Settings(url=url, credentials=credentials_of(url.user, environ, cqlshrc))


def read_url(text: str, environ: Mapping[str, str]) -> CassandraUrl:
    """Return the store of an address, without looking who logs in; raises as the above."""
    return _url_of(text, environ, read_cqlshrc(environ))


def _url_of(text: str, environ: Mapping[str, str], cqlshrc: Cqlshrc | None) -> CassandraUrl:
    layers = [_stated_in(environ)]
    if cqlshrc is not None:
        layers.append(_stated_by(cqlshrc))
    return parse_url(text, *layers)


def _stated_in(environ: Mapping[str, str]) -> Stated:
    return {
        name: (environ[variable], variable)
        for name, variable in VARIABLES.items()
        if environ.get(variable)
    }


def _stated_by(cqlshrc: Cqlshrc) -> Stated:
    stated = {name: (text, cqlshrc.path) for name, text in cqlshrc.options.items()}
    # cqlsh's sample names certificates beside ssl = false: there they mean nothing by themselves.
    stated.setdefault("tls", ("false", cqlshrc.path))
    return stated


def credentials_of(
    user: str | None, environ: Mapping[str, str], cqlshrc: Cqlshrc | None = None
) -> Credentials | None:
    """Return who logs in: the address's user, TREERING_USERNAME or cqlsh's, with its password.

    Raises:
        UsageError: A user without a password, or a password without a user.
    """
    theirs = cqlshrc.username if cqlshrc is not None else None
    username = user or environ.get("TREERING_USERNAME") or theirs
    password = environ.get("TREERING_PASSWORD") or None
    if password is None and cqlshrc is not None and username == theirs:
        password = cqlshrc.password
    if username is None and password is None:
        return None
    if username is None:
        raise UsageError(
            "TREERING_PASSWORD is set, but nobody is named who logs in with it",
            hint="set TREERING_USERNAME, or put user@ into the address of the store",
        )
    if password is None:
        raise UsageError(
            f"there is no password for the user {username!r}",
            hint="set TREERING_PASSWORD, or put it beside the user into cqlsh's file",
        )
    return Credentials(username, password)
