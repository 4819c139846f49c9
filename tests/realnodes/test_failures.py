"""Real failures on real nodes: each is named with its line and handled as its class says.

Nodes are probed all the while, by a DaemonSet of the chart.
"""

import time
from typing import Any, Final

import pytest

from tests.kube.installed import NAMESPACE
from tests.kube.operators import wait_until
from tests.realnodes.site import PATIENCE_SECONDS, TEAM, Site
from tests.realnodes.steps import redone
from tests.testcluster.restricted_pods import pod, running

VALUES: Final[dict[str, Any]] = {"probes": {"enabled": True, "everySeconds": 30}}
MOST_RESTARTS: Final = 10
EATS: Final = "b = [bytearray(b'x') * (8 << 20) for _ in range(999)]"
ASKS: Final = "import sys, urllib.request as r; r.urlopen(sys.argv[1], timeout=5).read()"
STORE: Final = f"http://store.{TEAM}.svc:8080/"
RULES: Final = f"services: {{http: '{STORE}'}}\n"
READERS: Final = tuple(f"reader-{number}" for number in range(6))
SERVICES: Final = f"/api/v1/namespaces/{TEAM}/services"
MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def failures(site: Site, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.lab.job(name).get("status", {}).get("failures", [])
    return found


def given_up(site: Site, name: str) -> list[dict[str, Any]]:
    try:
        wait_until(
            lambda: site.lab.state(name) == "Failed", f"{name} to be given up", PATIENCE_SECONDS
        )
    except AssertionError as error:
        error.add_note(str(site.lab.job(name)["status"]))
        error.add_note(site.plane.kubectl("get", "nodes", "-o", "json")[:6000])
        raise
    return failures(site, name)


def test_a_syntax_error_is_final_at_the_first_attempt(site: Site) -> None:
    began = time.time()
    site.lab.submit("syntax", 1, run="exec python -c 'def f(:'")
    (why,) = given_up(site, "syntax")
    site.note("syntax", "submitted to final", time.time() - began)
    assert (why["class"], why["line"]) == ("user", "SyntaxError: invalid syntax")
    assert site.decision("syntax")["epoch"] == 1


def test_a_job_that_the_kernel_kills_for_want_of_memory(site: Site) -> None:
    asked = {"gpus": 1, "memory_per_gpu": "256Mi"}
    site.lab.submit("memory", run=f'exec python -c "{EATS}"', resources=asked)
    (why,) = given_up(site, "memory")
    assert (why["class"], why["rule"]) == ("memory", "container_oom"), why
    assert "kill" in why["line"].lower(), why
    site.note("memory", why["line"], 0.0)


def test_every_node_is_probed_and_is_well(site: Site) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=weft.dev/probe"

    def ready() -> set[str]:
        return {
            one["spec"]["nodeName"]
            for one in site.plane.api.must("GET", path)["items"]
            if one["status"].get("containerStatuses", [{}])[0].get("ready")
        }

    try:
        site.until("probes", "all probes have passed", lambda: ready() == {*site.nodes.names})
    except AssertionError as error:
        error.add_note(str([one["status"] for one in site.plane.api.must("GET", path)["items"]]))
        raise


def test_a_job_of_one_pod_saves_before_a_drain_whatever_its_interval(site: Site) -> None:
    """Nobody says how often it saves, so for the first time it would after a minute."""
    site.submit("lone", 1, total=20_000, every="")
    site.await_width("lone", 1)
    site.await_step("lone", 20)
    (node,) = site.seats("lone").values()
    site.drain(node)
    wait_until(lambda: site.decision("lone")["epoch"] == 2, "another start")
    site.await_width("lone", 1)
    site.plane.kubectl("uncordon", node)
    done = site.steps("lone")
    assert not redone(done), site.said("lone")
    assert {step.epoch for step in done} == {1, 2}
    wait_until(lambda: "saveEverySeconds" in site.lab.job("lone")["status"]["work"], "its word")
    every = site.lab.job("lone")["status"]["work"]["saveEverySeconds"]
    site.lab.cancel("lone")
    assert every >= 60.0, "a minute at first, more once the cost of a save is known"


def test_a_node_that_is_killed_is_told_and_the_job_goes_on_elsewhere(site: Site) -> None:
    site.spread_operators()
    site.lab.submit("plain", 1, run="exec sleep 600", grace="1s")
    site.lab.submit("beside", 1, run="exec sleep 600", grace="1s")
    for name in ("plain", "beside"):
        site.lab.await_workers(name)
    (node,) = site.seats("plain").values()
    began = time.time()
    site.nodes.kill(node)
    site.until("node", "killed to known", lambda: bool(failures(site, "plain")), began)
    (why,) = failures(site, "plain")
    assert (why["class"], why["rule"]) == ("node", "node_fail")
    assert why["line"] == f"node {node} NotReady: out of reach"
    site.until("node", "killed to running elsewhere", lambda: elsewhere(site, node), began)
    assert site.lab.job("plain")["status"]["past"]["failures"] == 0, "it is no fault of the job"
    site.nodes.start(node)
    for name in ("plain", "beside"):
        site.lab.cancel(name)


def elsewhere(site: Site, node: str) -> bool:
    return site.lab.state("plain") == "Running" and node not in site.seats("plain").values()


@pytest.mark.timeout(420)
def test_all_wait_for_a_storage_service_and_come_back_one_after_the_other(site: Site) -> None:
    spec = {"selector": {"app": "store"}, "ports": [{"port": 8080, "targetPort": 8080}]}
    site.plane.api.must("POST", SERVICES, {"metadata": {"name": "store"}, "spec": spec})
    site.plane.api.must("POST", MAPS, {"metadata": {"name": "own"}, "data": {"rules.yaml": RULES}})
    site.upgrade({"failures": {"rulesConfigMap": "own"}})
    for name in READERS:
        site.lab.submit(name, 1, run=f'exec python -c "{ASKS}" {STORE}')
    site.until("service", "all of them wait, and are told why", lambda: held(site) >= 5)
    restarts = sum(site.decision(name).get("epoch", 0) - 1 for name in READERS)
    assert restarts <= MOST_RESTARTS
    assert all(one["rule"] == "http_failed" for name in READERS for one in failures(site, name))
    body = pod("store", "python", "-m", "http.server", "8080", "-d", "/tmp", node="node-0")
    running(site.plane, body)
    began = time.time()
    wait_until(lambda: succeeded(site) > 0, "the first job's end", PATIENCE_SECONDS)
    assert held(site) > 0, "the others wait until it has shown that the service is back"
    last = "the service's return to the last job's end"
    site.until("service", last, lambda: succeeded(site) == len(READERS), began)
    assert "weft.dev/set-aside" not in site.plane.kubectl("get", "nodes", "-o", "json")


def succeeded(site: Site) -> int:
    states = site.lab.states()
    return sum(states[name] == "Succeeded" for name in READERS)


def held(site: Site) -> int:
    """Jobs that wait for a service and know it."""
    jobs = site.lab.jobs()
    reasons = [jobs[name].get("status", {}).get("reason") for name in READERS]
    return reasons.count("Breaker.Open")
