"""The chart's alerts and the page of metrics name what a real operator shows, and nothing else."""

import re
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.kube.heads import free_port
from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from weft.kube.client import errors
from weft.kube.metrics import BY_NAME

ROOT = Path(__file__).parents[3]
FILE = ROOT / "charts" / "weft" / "files" / "alerts.yaml"
RULES: list[dict[str, Any]] = yaml.safe_load(FILE.read_text())["groups"][0]["rules"]
by_name = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])


def named(rule: dict[str, Any]) -> set[str]:
    """The metrics of a rule, as docs/metrics.md has them."""
    found = re.findall(r"\bweft_\w+", rule["expr"])
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in found}


@by_name
def test_an_alert_names_metrics_that_are_documented(rule: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    assert named(rule)
    assert [name for name in named(rule) if f"| `{name}` |" not in page] == []


@by_name
def test_an_alert_names_values_that_its_labels_can_have(rule: dict[str, Any]) -> None:
    (metric,) = named(rule)
    labels = {label.name: label.values for label in BY_NAME[metric].labels}
    for name, text in re.findall(r'(\w+)=~?"([^"]+)"', rule["expr"]):
        for value in text.split("|"):
            assert value in labels[name] if labels[name] else hasattr(errors, value)


@by_name
def test_an_alert_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["action"]


def test_a_real_operator_shows_them_all(cluster: ControlPlane, tmp_path: Path) -> None:
    cluster.add_nodes(1, gpus=8)
    kubeconfig = install_chart(cluster)
    lab, port = Lab(cluster), free_port()
    with OperatorProcess(kubeconfig, tmp_path, options={"metrics_port": port}):
        lab.submit("vit", 8, env={"KWOK_SECONDS": "1"})
        lab.wait_for("vit", "Succeeded")
        wanted = {name for rule in RULES for name in named(rule)}
        wait_until(partial(_shows, port, wanted), "all that alerts ask for")
        shown = {family.name for family in _scraped(port) if family.name.startswith("weft_")}
        page = (ROOT / "docs" / "metrics.md").read_text()
        documented = re.findall(r"^\| `(weft_\w+)` \|", page, re.MULTILINE)
        assert documented, "the page has a table"
        assert shown == {name.removesuffix("_total") for name in documented}


def _shows(port: int, wanted: set[str]) -> bool:
    """With a value: a name alone would alarm nobody."""
    shown = {family.name for family in _scraped(port) if family.samples}
    return {name.removesuffix("_total") for name in wanted} <= shown


def _scraped(port: int) -> list[Metric]:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return list(text_string_to_metric_families(answer.read().decode()))
