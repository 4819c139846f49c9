"""A bill of materials in CycloneDX' JSON, from what is installed here.

It lists what the images hold of Python: Weft's dependencies with the extras of the operator or of
workers, and theirs, with the versions that the tests ran with. What it says follows from the
environment and the time that is handed in alone, so the same release has the same bytes.
"""

import importlib.metadata
import json
from datetime import UTC, datetime
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.testcluster.packages import Package, wanted

FORMAT: Final = "CycloneDX"
SPEC_VERSION: Final = "1.5"


def sbom(version: str, extras: tuple[str, ...], at: float) -> str:
    """The text for Weft of this version with these extras, made at that time."""
    packages = {p.name: p for extra in extras for p in wanted(extra)}
    listed = [packages[name] for name in sorted(packages)]
    said = {
        "bomFormat": FORMAT,
        "specVersion": SPEC_VERSION,
        "version": 1,
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, repr((version, extras, listed)))}",
        "metadata": {
            "timestamp": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": _component("weft", version, kind="application"),
        },
        "components": [_component(each.name, each.version) for each in listed],
        "dependencies": [
            {"ref": _purl("weft", version), "dependsOn": _needs("weft", packages)},
            *(
                {"ref": _purl(each.name, each.version), "dependsOn": _needs(each.name, packages)}
                for each in listed
            ),
        ],
    }
    return json.dumps(said, indent=2) + "\n"


def _component(name: str, version: str, *, kind: str = "library") -> dict[str, Any]:
    purl = _purl(name, version)
    about = importlib.metadata.metadata(name)
    found: dict[str, Any] = {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    if "Summary" in about:
        found["description"] = about["Summary"]
    if licenses := _licenses(about):
        found["licenses"] = licenses
    return found


def _licenses(about: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a message of some kind
    """An expression where there is one, else what the package says in its own words."""
    if expression := about.get("License-Expression"):
        return [{"expression": expression}]
    classified = [
        text.rpartition(" :: ")[2]
        for text in about.get_all("Classifier") or ()
        if text.startswith("License :: ")
    ]
    named = classified or [text for text in [about.get("License")] if text and "\n" not in text]
    return [{"license": {"name": text}} for text in named]


def _needs(name: str, packages: dict[str, Package]) -> list[str]:
    """Of those that are listed, the ones that it may import."""
    asked = (Requirement(text) for text in importlib.metadata.requires(name) or ())
    names = {canonicalize_name(each.name) for each in asked}
    known = {canonicalize_name(each.name): each for each in packages.values()}
    return sorted(_purl(known[n].name, known[n].version) for n in names if n in known)


def _purl(name: str, version: str) -> str:
    return f"pkg:pypi/{canonicalize_name(name)}@{version}"
