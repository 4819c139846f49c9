"""Where the API server is and who we are: kubeconfigs, plugins and the account of a pod."""

import asyncio
import base64
import json
import os
import shutil
import ssl
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kubernetes_asyncio.config import incluster_config

from weft.kube.client import credentials
from weft.kube.client.credentials import load_credentials
from weft.kube.client.errors import NoAccess

A_CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUaXbt6ic0RIi8/rMPEQ/R5uzo/4IwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMTUwNTE5MzBaGA8yMTI2MTAyMjA1MTkz
MFowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABC8f
KA/G2HosHmri5gN5AJ5eeg+rKR0HeOYCcV32mNF4423rolEtGCIMDM5UN091Y6mY
ZZ0GVsPmYV8ORtoqYOWjUzBRMB0GA1UdDgQWBBS0rFZNzWXlKZ6hwUtkKiFYZ83B
RjAfBgNVHSMEGDAWgBS0rFZNzWXlKZ6hwUtkKiFYZ83BRjAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQDFMkTco5Uo30MTSQKqE9H3QhbrZMSMVP/r
OM9C0GPcJgIhAJ4+lpZNz03ocj/YPYN6huMrq2B8C5KOvCq95h59wKEH
-----END CERTIFICATE-----
"""


def write_config(
    folder: Path, user: dict[str, Any], cluster: dict[str, Any] | None = None, **context: Any
) -> str:
    path = folder / "config"
    body = {
        "clusters": [{"name": "c", "cluster": cluster or {"server": "http://127.0.0.1:9/"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", **context}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(body))
    return str(path)


def test_a_kubeconfig_names_server_namespace_and_token(tmp_path: Path) -> None:
    path = write_config(tmp_path, {"token": "t"}, namespace="team")
    known = asyncio.run(load_credentials(path, None))
    assert (known.url, known.namespace, known.authorization) == (
        "http://127.0.0.1:9",
        "team",
        "Bearer t",
    )


def test_the_environment_names_a_kubeconfig(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_config(tmp_path, {"token": "t"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}{os.pathsep}{path}")
    assert asyncio.run(load_credentials(None, None)).authorization == "Bearer t"


@pytest.mark.parametrize("text", ["", "{}", "a: [", "current-context: x\ncontexts: []\n"])
def test_a_bad_kubeconfig_is_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(NoAccess, match="config") as caught:
        asyncio.run(load_credentials(str(path), None))
    assert "kubectl" in caught.value.hint


def test_without_kubeconfig_and_pod_there_is_no_access(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoAccess, match="not a pod"):
        asyncio.run(load_credentials(None, None))
    with pytest.raises(NoAccess, match="no such file"):
        asyncio.run(load_credentials(str(tmp_path / "absent"), None))


def test_a_token_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    path = write_config(tmp_path, {"tokenFile": str(token)})

    async def read() -> list[str]:
        known = await load_credentials(path, None)
        seen = [known.authorization]
        token.write_text("two\n")
        await known.refresh()
        seen.append(known.authorization)
        known.distrust()
        await known.refresh()
        return [*seen, known.authorization]

    assert asyncio.run(read()) == ["Bearer one", "Bearer one", "Bearer two"]
    monkeypatch.setattr(credentials, "REFRESH_SECONDS", 0.0)
    token.write_text("one")
    assert asyncio.run(read()) == ["Bearer one", "Bearer two", "Bearer two"]


def test_an_exec_plugin_is_asked(tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answer["status"] = {"token": "from-plugin"}  # type: ignore[assignment]
    plugin.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    asked = {"apiVersion": answer["apiVersion"], "command": str(plugin), "interactiveMode": "Never"}
    path = write_config(tmp_path, {"exec": asked})
    assert asyncio.run(load_credentials(path, None)).authorization == "Bearer from-plugin"
    plugin.write_text("#!/bin/sh\necho no entry >&2; exit 1\n")
    with pytest.raises(NoAccess):
        asyncio.run(load_credentials(path, None))


def test_credentials_that_cannot_be_read_again_stay(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    path = write_config(tmp_path, {"tokenFile": str(token)})

    async def read() -> str:
        known = await load_credentials(path, None)
        token.unlink()
        known.distrust()
        await known.refresh()
        return known.authorization

    assert asyncio.run(read()) == "Bearer one"


@pytest.mark.parametrize("verified", [True, False])
def test_a_certificate_says_who_we_are(tmp_path: Path, verified: bool) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    files = {"keyout": tmp_path / "key", "out": tmp_path / "certificate"}
    command = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=me"
    places = [word for name, file in files.items() for word in (f"-{name}", str(file))]
    subprocess.run([openssl, *command.split(), *places], check=True, capture_output=True)
    data = {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}
    user = {"client-certificate-data": data["out"], "client-key-data": data["keyout"]}
    cluster = {"server": "https://127.0.0.1:9", "insecure-skip-tls-verify": not verified}
    known = asyncio.run(load_credentials(write_config(tmp_path, user, cluster), None))
    assert known.authorization == ""
    assert known.tls is not None
    assert known.tls.verify_mode is (ssl.CERT_REQUIRED if verified else ssl.CERT_NONE)


def test_a_pod_has_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("mine\n")
    (tmp_path / "namespace").write_text("weft\n")
    (tmp_path / "ca.crt").write_text(A_CERTIFICATE)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setattr(credentials, "ACCOUNT_FOLDER", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    known = asyncio.run(load_credentials(None, None))
    assert (known.url, known.namespace) == ("https://10.0.0.1:443", "weft")
    assert known.authorization == "Bearer mine"
    (tmp_path / "token").write_text("renewed")
    known.distrust()
    asyncio.run(known.refresh())
    assert known.authorization == "Bearer renewed"
