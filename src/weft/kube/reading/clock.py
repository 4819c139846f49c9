"""How far this machine's clock is from the API server's, by the `Date` header of an answer."""

import time
from email.utils import parsedate_to_datetime

import aiohttp

from weft.kube.client.credentials import load_credentials
from weft.kube.client.errors import Unavailable

TIMEOUT = aiohttp.ClientTimeout(total=5.0)
WHOLE_SECONDS = 0.5  # the header has no fractions: on average it is half a second behind


async def skew_seconds(kubeconfig: str | None, context: str | None) -> float:
    """Ours less the server's; the time of the way there and back is shared out evenly."""
    known = await load_credentials(kubeconfig, context)
    asked = time.time()
    try:
        async with (
            aiohttp.ClientSession(timeout=TIMEOUT) as session,
            session.get(
                f"{known.url}/version",
                headers={"Authorization": known.authorization} if known.authorization else {},
                ssl=known.tls if known.tls is not None else True,
                server_hostname=known.server_name,
                proxy=known.proxy,
            ) as answer,
        ):
            said = parsedate_to_datetime(answer.headers["Date"])
    except (aiohttp.ClientError, TimeoutError, KeyError, ValueError) as error:
        raise Unavailable(f"the server does not tell its time: {error!r}") from error
    return (asked + time.time()) / 2 - said.timestamp() - WHOLE_SECONDS
