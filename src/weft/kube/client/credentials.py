"""Where the API server is and who we are, from a kubeconfig or from the pod's own account.

kubernetes_asyncio reads both and runs exec plugins. Tokens live for minutes to an hour, so they are
read again while we run: before a call, once a minute, and at once after a refusal.
"""

import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from weft.kube.client.errors import NoAccess

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration

logger = logging.getLogger(__name__)

REFRESH_SECONDS: Final = 60.0
ACCOUNT_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(slots=True)
class Credentials:
    """The address of an API server, and the certificate and header that open it."""

    url: str
    namespace: str = "default"
    authorization: str = ""
    tls: ssl.SSLContext | None = None
    server_name: str | None = None  # where the certificate has another name than the address
    proxy: str | None = None
    context: str = ""  # the kubeconfig's own name for it
    _read: Callable[[], Awaitable["Configuration"]] | None = None
    _files: tuple[str | None, str | None] = (None, None)
    _read_at: float = field(default_factory=time.monotonic)

    async def refresh(self) -> None:
        """Read them again if that was a minute ago; if that fails, the old ones may still do."""
        if self._read is None or time.monotonic() - self._read_at < REFRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        try:
            await self._take(await self._read())
        except Exception as error:  # a plugin may fail in any way
            logger.warning("the credentials could not be read again: %s", error)

    def distrust(self) -> None:
        """They were refused: read them again before the next call."""
        self._read_at = float("-inf")

    async def _take(self, configuration: "Configuration") -> None:
        token = await configuration.get_api_key_with_prefix("BearerToken")
        self.authorization = (token or "").strip()
        files = (configuration.cert_file, configuration.key_file)
        if self.tls is None or files != self._files:
            self.tls = _tls(configuration)
            self._files = files


async def load_credentials(kubeconfig: str | None, context: str | None) -> Credentials:
    """From this kubeconfig, else $KUBECONFIG, else ~/.kube/config, else the pod's account."""
    path = kubeconfig or _default_kubeconfig()
    try:
        if path:
            return await _from_kubeconfig(path, context)
        return await _from_account()
    except NoAccess:
        raise
    except Exception as error:  # the reader trips over a bad file in many ways, assertions included
        raise NoAccess(
            f"cannot use {path or 'the service account of this pod'}: {error or repr(error)}",
            hint="Try `kubectl version` with the same file; `--kubeconfig` and `--context` choose.",
        ) from error


def _default_kubeconfig() -> str | None:
    named = os.environ.get("KUBECONFIG")
    if named:
        return named
    home = Path.home() / ".kube" / "config"
    return str(home) if home.exists() else None


async def _from_kubeconfig(path: str, context: str | None) -> Credentials:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_kube_config

    if not any(Path(part).expanduser().exists() for part in path.split(os.pathsep)):
        raise FileNotFoundError("no such file")
    configuration = Configuration()
    loader = await load_kube_config(
        config_file=path, context=context, client_configuration=configuration, persist_config=False
    )

    async def read() -> Configuration:
        await loader.load_and_set(configuration)
        return configuration

    named = loader.current_context or {}
    chosen = named.get("context", {})
    made = await _credentials(configuration, chosen.get("namespace") or "default", read)
    made.context = named.get("name") or ""
    return made


async def _from_account() -> Credentials:
    from kubernetes_asyncio.client import Configuration
    from kubernetes_asyncio.config import load_incluster_config

    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise NoAccess(
            "there is no kubeconfig, and this is not a pod",
            hint="Set KUBECONFIG, or give --kubeconfig.",
        )
    load_account: Callable[..., None] = load_incluster_config

    async def read() -> Configuration:
        configuration = Configuration()
        load_account(client_configuration=configuration)
        return configuration

    file = ACCOUNT_FOLDER / "namespace"
    namespace = file.read_text().strip() if file.exists() else "default"
    return await _credentials(await read(), namespace, read)


async def _credentials(
    configuration: "Configuration", namespace: str, read: Callable[[], Awaitable["Configuration"]]
) -> Credentials:
    credentials = Credentials(
        url=(configuration.host or "").rstrip("/"),
        namespace=namespace,
        server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
        _read=read,
    )
    await credentials._take(configuration)
    return credentials


def _tls(configuration: "Configuration") -> ssl.SSLContext | None:
    if not (configuration.host or "").startswith("https"):
        return None
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # Clusters' own authorities often lack extensions that the strict check of Python 3.13 demands.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
