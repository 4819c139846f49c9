"""Shows reports the way to the leader.

Every replica is ready, but only the leader takes reports, and the clients of others do not ask
twice. So the Service for reports selects no pods: who leads writes down its own address as the
Service's only endpoint.
"""

import asyncio
from ipaddress import ip_address
from random import Random
from typing import Any, Final

from weft.kube.client.api import APPLY, Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.errors import ApiError
from weft.kube.logs import Log
from weft.kube.names import FIELD_MANAGER

PORT_NAME: Final = "reports"  # the Service's port has this name too: so they find each other
CHECK_SECONDS: Final = 10.0  # a write of the leader before may still have been on its way

log = Log("endpoint")


async def publish_endpoint(
    api: Api,
    *,
    namespace: str,
    service: str,
    address: str,
    port: int,
    check_seconds: float = CHECK_SECONDS,
) -> None:
    """Lead the Service here and, whoever meddles, keep it so until cancelled.

    An API server that refuses is asked again later; `NotLeading` is raised.
    """
    path = endpoint_slices_path(namespace, service)
    wanted = endpoint_slice(namespace, service, address, port)
    backoff = Backoff(Random(), first_seconds=1.0, most_seconds=check_seconds)
    while True:
        try:
            # Where nothing has changed this writes nothing.
            await api.patch(path, wanted, kind=APPLY, params={"force": "true"})
            backoff.reset()
            pause = check_seconds
        except ApiError as error:
            log.warning("reports_not_led_here", service=service, error=str(error))
            pause = backoff.next_seconds(at_least=error.retry_after_seconds)
        await asyncio.sleep(pause)


def endpoint_slice(namespace: str, service: str, address: str, port: int) -> dict[str, Any]:
    """One endpoint, of the Service whose name it shares."""
    labels = {
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": FIELD_MANAGER,
    }
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": service, "namespace": namespace, "labels": labels},
        "addressType": f"IPv{ip_address(address).version}",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
    }


def endpoint_slices_path(namespace: str, name: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{name}"
