"""How a connection is encrypted: what may be said about it, and the context that follows.

Rules of this file: a file that cannot be used is named, with what it is for; nobody is asked for a
passphrase at a terminal; verification is only ever weakened by name.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, assert_never, get_args

from treering.errors import UsageError

Verify = Literal["host", "ca", "none"]
VERIFY_DEFAULT: Final[Verify] = "host"
KEY_PASSWORD: Final = "TREERING_KEY_PASSWORD"  # noqa: S105  # the variable's name

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What is said about TLS.

    Attributes:
        ca: File of the authorities that sign the nodes' certificates; None for the machine's own.
        cert: File of the certificate that this client shows; None where nodes ask for none.
        key: File of its key; None where it stands in the file of the certificate.
        verify: What is checked of a node's certificate: that an authority signed it and it names
            the node's address (``host``), that an authority signed it (``ca``), or ``none``.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    verify: Verify = VERIFY_DEFAULT

    def __post_init__(self) -> None:
        if self.key is not None and self.cert is None:
            raise UsageError(
                f"there is a key ({self.key}) and no certificate that it belongs to",
                hint="name the certificate too: cert=",
            )


def parse_verify(text: str) -> Verify:
    """Return how far certificates are checked.

    Raises:
        UsageError: Another text.
    """
    for known in get_args(Verify):
        if text.lower() == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(
        f"verify={text} is not a way to check certificates",
        hint="use host (authority and address), ca (authority alone) or none",
    )


def context_of(tls: Tls, environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the context that connections are wrapped with.

    Args:
        tls: What is said.
        environ: Where the passphrase of the key is, in TREERING_KEY_PASSWORD.

    Raises:
        UsageError: A file that is not there, or is not what it should be.
    """
    ca = _file_of(tls.ca, "ca")
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(ca, "ca", "certificates in PEM form", error) from error
    match tls.verify:
        case "host":
            pass
        case "ca":
            context.check_hostname = False
        case "none":
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            log.warning("certificates of nodes are not checked (verify=none): anybody can be one")
        case _:
            assert_never(tls.verify)
    if tls.cert is not None:
        _load_own(context, tls, environ)
    return context


def _load_own(context: ssl.SSLContext, tls: Tls, environ: Mapping[str, str]) -> None:
    cert, key = _file_of(tls.cert, "cert"), _file_of(tls.key, "key")
    assert cert is not None
    passphrase = environ.get(KEY_PASSWORD, "")
    was_asked = False

    def tell_passphrase() -> str:
        nonlocal was_asked
        was_asked = True
        return passphrase

    try:
        # The function keeps OpenSSL from asking at the terminal.
        context.load_cert_chain(cert, key, password=tell_passphrase)
    except (OSError, ssl.SSLError, ValueError) as error:
        if was_asked:
            problem = "is wrong for" if passphrase else "is needed by"
            raise UsageError(
                f"a passphrase {problem} the key {key or cert}", hint=f"set {KEY_PASSWORD}"
            ) from error
        wanted = "a certificate and its key in PEM form"
        raise _unusable(cert if key is None else f"{cert} with {key}", "cert", wanted, error) from (
            error
        )


def _file_of(path: str | None, option: str) -> str | None:
    if path is None:
        return None
    file = Path(path).expanduser()
    if not file.is_file():
        raise UsageError(
            f"there is no file {file} for TLS ({option}=)", hint="check the path", path=str(file)
        )
    return str(file)


def _unusable(path: str | None, option: str, wanted: str, error: Exception) -> UsageError:
    return UsageError(
        f"{path or 'the machine'} cannot be used for TLS ({option}=): {error}",
        hint=f"it has to hold {wanted}",
        path=path,
    )
