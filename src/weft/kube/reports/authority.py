"""The authority that workers check the operator's certificate against.

It is public, so it may travel with each pod; what is not a certificate must not travel at all, for
the file beside it in the same Secret is the key.
"""

import ssl
from pathlib import Path
from typing import Final

from weft.model.errors import WorldError

MOST_BYTES: Final = 16 * 1024  # annotations of a pod share 256 KiB
BEGIN: Final = "-----BEGIN "
CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"


def certificates_in(file: str) -> str:
    """The PEM text of that file, if one is named; anything but certificates is refused."""
    if not file:
        return ""
    try:
        text = Path(file).read_bytes()[: MOST_BYTES + 1].decode("ascii")
        if len(text) > MOST_BYTES or text.count(BEGIN) != text.count(CERTIFICATE):
            raise ValueError("it holds more than a few certificates")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (OSError, ValueError, ssl.SSLError) as error:
        raise WorldError(
            f"cannot use {file}: {error}",
            hint="Give the authority of --tls-cert in PEM, without any key.",
        ) from error
    return text
