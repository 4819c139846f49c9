"""Jobs that share a GPU on real nodes: two pods, one claim, one device, and turns between them.

A driver of the tests' own publishes one GPU of each node and hands it out by CDI, with a folder
where those who share it meet. Three jobs and two GPUs: the third joins who fits it best. One of the
two is killed, the operators are killed, and when the queue is empty the companion gets a GPU of its
own.
"""

import time
from typing import Any, Final

import pytest

from tests.kube.operators import wait_until
from tests.realnodes.site import TEAM, Site
from tests.realnodes.steps import follow_on, longest_pause_seconds

DRIVERS: Final = True
DRIVER: Final = "gpu.weft.test"
API: Final = "/apis/resource.k8s.io/v1"
VALUES: Final = {
    "recipe": "fifo(spacing=0.5, interleave=true)",
    "nodes": {"gpuClass": DRIVER},
}
LOADS, COMPUTES, THIRD = "loads", "computes", "third"
PATIENCE_SECONDS: Final = 200.0


def stages(read: float, compute: float) -> dict[str, Any]:
    """A job that reads and computes for so long in each step, and says so."""
    claim = {"storage_seconds": read, "gpu_seconds": compute, "step_seconds": max(read, compute)}
    return {"shareable": True, "stages": {**claim, "gpu_memory": "2GiB"}, "duration": "10h"}


def submit(site: Site, name: str, *, read: float, compute: float) -> None:
    knobs = f"--pause 0 --read {read} --compute {compute}"
    site.submit(name, 1, total=100_000, knobs=knobs, **stages(read, compute))


def claims(site: Site) -> dict[str, dict[str, Any]]:
    path = f"{API}/namespaces/{TEAM}/resourceclaims"
    return {one["metadata"]["name"]: one for one in site.plane.api.must("GET", path)["items"]}


def others(site: Site, name: str) -> list[str]:
    company = site.lab.job(name).get("status", {}).get("company") or {}
    return list(company.get("others") or [])


def go_on(site: Site, *names: str) -> None:
    """Each makes some more steps."""
    for name in names:
        done = site.steps(name)
        site.await_step(name, (done[-1].number if done else 0) + 20)


@pytest.mark.timeout(900)
def test_two_members_train_in_two_pods_on_one_device(site: Site) -> None:
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    site.plane.api.must("POST", f"{API}/deviceclasses", body)
    lead, companion = _is_grouped(site)
    _one_is_killed(site, lead, companion)
    _operators_are_killed(site, lead, companion)
    _is_broken_up(site, lead, companion)


def _is_grouped(site: Site) -> tuple[str, str]:
    began = time.time()
    submit(site, LOADS, read=0.2, compute=0.02)
    submit(site, THIRD, read=0.0, compute=0.2)
    for name in (LOADS, THIRD):
        site.await_width(name, 1, PATIENCE_SECONDS)
    submit(site, COMPUTES, read=0.01, compute=0.15)
    site.await_width(COMPUTES, 1, PATIENCE_SECONDS)
    site.until(
        "company", "submitted to two in company", lambda: bool(others(site, COMPUTES)), began
    )
    (lead,) = (one.partition("/")[2] for one in others(site, COMPUTES))
    assert lead == LOADS, "with whom it gains most"
    (claim,) = [one for name, one in claims(site).items() if name.startswith(f"{lead}-")]
    used_by = {one["name"] for one in claim["status"]["reservedFor"]}
    assert used_by == {f"{lead}-1-0", f"{COMPUTES}-1-0"}
    assert site.seats(lead) == site.seats(COMPUTES)
    assert site.gpus(lead) == site.gpus(COMPUTES) == "gpu-0"
    go_on(site, lead, COMPUTES)
    _meet(site, lead, COMPUTES)
    return lead, COMPUTES


def _meet(site: Site, *names: str) -> None:
    """Both agents are in the folder of their claim, and a lease server runs there."""
    (node,) = set(site.seats(names[0]).values())
    machine = site.nodes.machine(node)

    def listed(pattern: str) -> list[str]:
        return machine.call(["sh", "-c", f"ls -d /var/lib/company/*/{pattern} || true"]).split()

    wait_until(lambda: len(listed("members/*")) == len(names), "each in the other's sight")
    wait_until(lambda: len(listed("leases.sock")) == 1, "a lease server")


def _one_is_killed(site: Site, lead: str, companion: str) -> None:
    """The whole pod at once; the other trains on meanwhile, and has company again."""
    before = site.uids(lead)
    (pod,) = site.uids(companion)
    site.plane.kubectl("delete", "pod", "-n", TEAM, pod, "--grace-period=0", "--force")
    began = time.time()
    again = f"{companion}-2-0"
    site.until(
        "company", "a member killed to it trains again", lambda: again in site.uids(companion)
    )
    go_on(site, lead, companion)
    assert site.uids(lead) == before
    done = site.steps(lead)
    assert follow_on(done)
    site.note("company", "longest pause of the other", longest_pause_seconds(done))
    again_at = min(step.at for step in site.steps(companion) if step.epoch == 2)
    assert len([step for step in done if began <= step.at < again_at]) >= 3
    wait_until(lambda: bool(others(site, companion)), "company again", PATIENCE_SECONDS)


def _operators_are_killed(site: Site, lead: str, companion: str) -> None:
    before = {name: site.uids(name) for name in (lead, companion)}
    leader = site.leader()
    site.kill_operators()
    site.until("company", "operators killed to another leads", lambda: site.leader() != leader)
    go_on(site, lead, companion)
    assert {name: site.uids(name) for name in before} == before
    assert others(site, companion) == [f"{TEAM}/{lead}"]


def _is_broken_up(site: Site, lead: str, companion: str) -> None:
    """There is a GPU for each: it is not shared any more, and the claim is its lead's alone."""
    began = time.time()
    site.lab.cancel(THIRD)
    site.lab.wait_for(THIRD, "Cancelled", seconds=PATIENCE_SECONDS)
    apart = "the queue empty to a GPU for each"
    site.until("company", apart, lambda: len(_nodes(site, lead, companion)) == 2, began)
    site.await_width(companion, 1, PATIENCE_SECONDS)
    wait_until(lambda: not others(site, lead), "nobody's company", PATIENCE_SECONDS)
    go_on(site, lead, companion)
    assert follow_on(site.steps(lead))
    for name in (lead, companion):
        site.lab.cancel(name)
        site.lab.wait_for(name, "Cancelled", seconds=PATIENCE_SECONDS)
    wait_until(lambda: not claims(site), "no claim to be left", PATIENCE_SECONDS)


def _nodes(site: Site, *names: str) -> set[str]:
    return {node for name in names for node in site.seats(name).values()}
