"""Reports are led to the leader, whoever that is, and whatever others do to its endpoint."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.kube.installed import NAMESPACE, OPERATOR, install_chart, token_of
from tests.kube.operators import OperatorProcess, wait_until
from tests.waiting import until_async
from tools.testcluster import ControlPlane
from tools.testcluster.rest import APPLY_PATCH, MERGE_PATCH, Rest
from weft.kube.client.api import Api
from weft.kube.client.errors import Forbidden, Unavailable
from weft.kube.operator.leader_endpoint import (
    PORT_NAME,
    endpoint_slice,
    endpoint_slices_path,
    publish_endpoint,
)
from weft.model.errors import NotLeading

PATH = endpoint_slices_path(NAMESPACE, OPERATOR)
SERVICE = f"/api/v1/namespaces/{NAMESPACE}/services/{OPERATOR}"
ONE, TWO = "10.1.2.3", "10.1.2.4"


@pytest.mark.parametrize(
    ("address", "family"), [("10.1.2.3", "IPv4"), ("fd00::1", "IPv6")], ids=["v4", "v6"]
)
def test_the_family_is_that_of_the_address(address: str, family: str) -> None:
    assert endpoint_slice(NAMESPACE, OPERATOR, address, 8080)["addressType"] == family


def test_refusals_are_borne_until_leadership_is_lost() -> None:
    errors = [Unavailable("down"), Forbidden("no", status=403), None, NotLeading("lost")]
    api = Refusing(errors)
    with pytest.raises(NotLeading):
        asyncio.run(asyncio.wait_for(pointed(api), 5.0))
    assert not errors


class Refusing:
    """In place of an API server: raises one after the other."""

    def __init__(self, errors: list[Any]) -> None:
        self._errors = errors

    async def patch(self, path: str, body: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        assert path == PATH
        error = self._errors.pop(0)
        if error is not None:
            raise error
        return {}


# ------------------------------------------------------------------------- a real API server


def test_the_leader_is_the_services_only_endpoint(cluster: ControlPlane) -> None:
    kubeconfig = install_chart(cluster)

    async def story() -> None:
        async with published(kubeconfig, ONE):
            await eventually(lambda: addresses(cluster) == [ONE])

    asyncio.run(story())
    (found,) = slices(cluster)
    assert found["metadata"]["name"] == OPERATOR
    assert found["addressType"] == "IPv4"
    assert found["endpoints"] == [{"addresses": [ONE], "conditions": {"ready": True}}]
    assert found["ports"] == [{"name": PORT_NAME, "port": 8080, "protocol": "TCP"}]
    assert "selector" not in cluster.api.must("GET", SERVICE)["spec"]


def test_what_others_do_to_it_is_repaired(cluster: ControlPlane) -> None:
    kubeconfig = install_chart(cluster)
    stray = {"endpoints": [{"addresses": ["10.9.9.9"]}]}

    async def story() -> None:
        async with published(kubeconfig, ONE):
            await eventually(lambda: addresses(cluster) == [ONE])
            cluster.api.must("DELETE", PATH)
            await eventually(lambda: addresses(cluster) == [ONE])
            cluster.api.must("PATCH", PATH, stray, MERGE_PATCH)
            await eventually(lambda: addresses(cluster) == [ONE])

    asyncio.run(story())


def test_what_is_right_is_not_written_again(cluster: ControlPlane) -> None:
    kubeconfig = install_chart(cluster)

    async def story() -> None:
        async with published(kubeconfig, ONE) as api:
            await eventually(lambda: addresses(cluster) == [ONE])
            before = version(cluster)
            calls = api.calls["patch", "ok"]
            await eventually(lambda: api.calls["patch", "ok"] > calls + 2)
            assert version(cluster) == before

    asyncio.run(story())


def test_the_next_leader_takes_it_over(cluster: ControlPlane) -> None:
    kubeconfig = install_chart(cluster)

    async def story() -> None:
        for address in (ONE, TWO):
            async with published(kubeconfig, address):
                await eventually(partial(leads_to, cluster, address))

    asyncio.run(story())


def test_the_operator_may_write_no_other(cluster: ControlPlane) -> None:
    token = token_of(install_chart(cluster))
    other = endpoint_slice(NAMESPACE, "other", ONE, 8080)
    folder = PATH.rpartition("/")[0]
    apply = "?fieldManager=weft&force=true"
    with Rest(cluster.layout.api_port, cluster.ca, token) as operator:
        path = endpoint_slices_path(NAMESPACE, "other") + apply
        assert operator.send("PATCH", path, other, APPLY_PATCH).status == 403
        assert operator.send("POST", folder, other).status == 403
        path = endpoint_slices_path("default", OPERATOR) + apply
        elsewhere = endpoint_slice("default", OPERATOR, ONE, 8080)
        assert operator.send("PATCH", path, elsewhere, APPLY_PATCH).status == 403


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_reports_follow_the_leadership(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install_chart(cluster)
    port = free_port()
    with replica(kubeconfig, tmp_path, "one", ONE, free_port()) as one:
        wait_until(lambda: addresses(cluster) == [ONE], "one to be pointed to")
        with replica(kubeconfig, tmp_path, "two", TWO, port):
            wait_until(lambda: listens(port), "two to stand by")
            assert addresses(cluster) == [ONE]
            one.stop()
            wait_until(lambda: addresses(cluster) == [TWO], "two to be pointed to")
    assert slices(cluster)[0]["ports"][0]["port"] == port
    assert [found["metadata"]["name"] for found in slices(cluster)] == [OPERATOR]


# ------------------------------------------------------------------------- helpers


async def pointed(api: Any, address: str = ONE, check_seconds: float = 0.1) -> None:  # noqa: ANN401
    await publish_endpoint(
        api,
        namespace=NAMESPACE,
        service=OPERATOR,
        address=address,
        port=8080,
        check_seconds=check_seconds,
    )


@asynccontextmanager
async def published(kubeconfig: Path, address: str) -> AsyncIterator[Api]:
    """A leader's, with the rights that the chart gives."""
    async with await Api.connect(kubeconfig=str(kubeconfig)) as api:
        pointing = asyncio.create_task(pointed(api, address))
        try:
            yield api
        finally:
            pointing.cancel()
            await asyncio.gather(pointing, return_exceptions=True)


def replica(kubeconfig: Path, folder: Path, name: str, address: str, port: int) -> OperatorProcess:
    options = {"reports_service": OPERATOR, "reports_port": port}
    environment = {"POD_IP": address}
    return OperatorProcess(kubeconfig, folder, name=name, options=options, environment=environment)


def listens(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


async def eventually(true: Callable[[], bool]) -> None:
    await until_async(true, "a change of the endpoint")


def slices(cluster: ControlPlane) -> list[dict[str, Any]]:
    """All that a proxy would take to belong to the Service."""
    folder = PATH.rpartition("/")[0]
    query = f"?labelSelector=kubernetes.io/service-name={OPERATOR}"
    found: list[dict[str, Any]] = cluster.api.must("GET", folder + query)["items"]
    return found


def addresses(cluster: ControlPlane) -> list[str]:
    return [
        address
        for found in slices(cluster)
        for endpoint in found["endpoints"]
        for address in endpoint["addresses"]
    ]


def leads_to(cluster: ControlPlane, address: str) -> bool:
    return addresses(cluster) == [address]


def version(cluster: ControlPlane) -> str:
    return str(cluster.api.must("GET", PATH)["metadata"]["resourceVersion"])
