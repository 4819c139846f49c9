"""Which world is meant: by option, environment, an earlier choice, or by what is there."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.called import Weft, expect_json_shape
from tests.cli.fake_cluster import FakeApi
from weft.cli.worlds import contexts
from weft.cli.worlds.contexts import (
    Context,
    chosen,
    own_folder,
    own_socket,
    settings_path,
    socket_path,
)
from weft.model.errors import WorldError

KUBECONFIG = """\
current-context: prod
contexts:
- {name: prod, context: {cluster: a, user: b}}
- {name: local, context: {cluster: a, user: b}}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weft: Weft) -> Path:
    """A home without anything in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def kubeconfig(home: Path) -> Path:
    path = home / ".kube" / "config"
    path.parent.mkdir()
    path.write_text(KUBECONFIG)
    return path


@pytest.fixture
def daemon() -> Iterator[Path]:
    """Somebody who listens where a world of ours would."""
    path = own_socket()
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        yield path


def test_where_nothing_is_there_both_ways_are_named(home: Path, weft: Weft) -> None:
    called = weft("ls")
    assert called.status == 5
    assert "neither a world on this machine nor a kubeconfig" in called.err
    assert "weft local up" in called.err
    assert "KUBECONFIG" in called.err


def test_what_is_there_is_taken(
    home: Path, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen().name == "cluster"
    kubeconfig.unlink()
    with pytest.raises(WorldError):
        chosen()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert chosen().name == "cluster"


def test_a_world_on_this_machine_goes_before_a_cluster(kubeconfig: Path, daemon: Path) -> None:
    assert chosen() == Context("local", "it answers")
    assert socket_path() == daemon


def test_a_choice_goes_before_what_is_there(
    home: Path, daemon: Path, weft: Weft, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert weft("context", "use", "prod").out == "prod\n"
    assert chosen() == Context("prod", "weft context use")
    monkeypatch.setenv("WEFT_CONTEXT", "cluster")
    assert chosen() == Context("cluster", "WEFT_CONTEXT")
    assert chosen(kubeconfig="/x") == Context("cluster", "--kubeconfig")
    assert chosen("local", kubeconfig="/x") == Context("local", "--context")
    monkeypatch.delenv("WEFT_CONTEXT")
    assert weft("context", "use", "--none").out == "none\n"
    assert chosen().name == "local"


@pytest.mark.parametrize(
    ("name", "local", "kube"),
    [
        ("local", True, None),
        ("cluster", False, None),
        ("prod", False, "prod"),
        ("kube:prod", False, "prod"),
        ("kube:local", False, "local"),
        ("kube:cluster", False, "cluster"),
    ],
)
def test_names(name: str, local: bool, kube: str | None) -> None:
    assert Context(name).local is local
    if not local:
        assert Context(name).kube_context == kube


def test_a_context_of_the_kubeconfig_is_connected(
    weft: Weft, cluster: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str | None, str | None]] = []

    async def connect(kubeconfig: str | None, context: str | None) -> FakeApi:
        asked.append((kubeconfig, context))
        return cluster

    monkeypatch.setattr("weft.cli.worlds.cluster.connect", connect)
    for words in ((), ("--context", "prod"), ("--context", "kube:local"), ("--kubeconfig", "/k")):
        assert weft("ls", *words).status == 0
    assert asked == [(None, None), (None, "prod"), (None, "local"), ("/k", None)]


def test_the_cluster_is_told(weft: Weft, cluster: FakeApi) -> None:
    assert weft("-v", "ls").err == "cluster lab · namespace research\n"
    cluster.context = ""
    assert weft("ls", "-n", "prod").err == "cluster · namespace prod\n"


def test_the_list(weft: Weft, kubeconfig: Path, daemon: Path) -> None:
    called = weft("context")
    assert called.status == 0
    rows = [line.split() for line in called.out.splitlines()[2:]]
    assert rows[0][:2] == ["*", "local"]
    assert [row[0] for row in rows[1:]] == ["cluster", "prod", "kube:local"]
    assert called.err == "local: it answers\n"
    expect_json_shape("contexts.json", weft("context", "-o", "json").json)


def test_the_list_where_nothing_is(weft: Weft, home: Path) -> None:
    called = weft("context")
    assert called.status == 0
    assert "*" not in called.out
    assert "weft local up" in called.err
    assert weft("context", "-o", "json").json["current"] is None


def test_a_choice_that_is_gone_is_still_shown(
    weft: Weft, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CONTEXT", "gone")
    listed = weft("context", "-o", "json").json["contexts"]
    assert [(one["name"], one["found"]) for one in listed if one["current"]] == [("gone", False)]


@pytest.mark.parametrize("broken", ["{", "[]", "contexts: 5", "contexts: [a, {b: c}]", "\x00"])
def test_a_kubeconfig_that_is_none(weft: Weft, kubeconfig: Path, broken: str) -> None:
    kubeconfig.write_text(broken)
    assert weft("context").status == 0


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (("prd",), "no context 'prd'", "did you mean prod?"),
        (("zzz",), "no context 'zzz'", "there are local, cluster, prod, local"),
        ((), "give either NAME or --none", "--help"),
        (("prod", "--none"), "give either NAME or --none", "--help"),
        (("prod", "--socket", "/x"), "--socket belongs to local", "--help"),
    ],
)
def test_choices_that_are_none(
    weft: Weft, kubeconfig: Path, *, words: tuple[str, ...], message: str, hint: str
) -> None:
    called = weft("context", "use", *words)
    assert called.status == 2
    first, _, rest = called.err.partition("\nhint: ")
    assert message in first
    assert hint in rest
    assert not settings_path().exists()


def test_a_socket_is_kept_with_the_choice(
    weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    called = weft("context", "use", "local", "--socket", "my.sock")
    assert "nobody answers there yet" in called.err
    assert socket_path() == home / "my.sock"
    monkeypatch.setenv("WEFT_LOCAL_SOCKET", "/other")
    assert socket_path() == Path("/other")
    told = json.loads(settings_path().read_text())
    assert told == {"current": "local", "socket": str(home / "my.sock")}


def test_settings_that_cannot_be_read(weft: Weft, home: Path) -> None:
    settings_path().parent.mkdir(parents=True)
    for broken in ("{", "5"):
        settings_path().write_text(broken)
        called = weft("ls")
        assert called.status == 2
        assert "cannot be read" in called.err


def test_settings_that_cannot_be_written(weft: Weft, home: Path) -> None:
    settings_path().parent.parent.mkdir(exist_ok=True)
    settings_path().parent.touch()
    called = weft("context", "use", "local")
    assert called.status == 2
    assert "set WEFT_CONTEXT instead" in called.err


def test_places_of_root_and_of_others(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert (own_socket(), own_folder()) == (contexts.SYSTEM_SOCKET, Path("/var/lib/weft"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert own_socket() == home / "run" / "weft" / "weft.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert own_socket() == home / ".local" / "share" / "weft" / "weft.sock"


def test_the_system_s_world_is_found_where_one_s_own_does_not_answer(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    system = contexts.SYSTEM_SOCKET
    assert socket_path() == own_socket() != system
    system.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(system))
        assert socket_path() == system, "it is there, if silent"
        listening.listen()
        assert chosen().name == "local"
        own_socket().parent.mkdir(parents=True)
        own_socket().touch()
        assert socket_path() == system
