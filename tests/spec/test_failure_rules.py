"""Rules of one's own: read from YAML, put before those of Weft, refused with a hint."""

from pathlib import Path

import pytest

from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.lines import Line, Stream
from weft.model.errors import SpecError
from weft.reconcile.services import Address
from weft.spec.failure_rules import parse_rules, parse_services, read_rules

GOOD = r"""
rules:
  - name: our_store
    says: our store is down
    kind: service
    service: our store
    patterns:
      - 'OurStore: quorum (?:lost|\d{1,3} of \d{1,3})'
    examples: ['OurStore: quorum lost at 12:30', 'OurStore: quorum 1 of 3']
  - name: old_driver
    says: the driver is the one that we know to be broken
    kind: gpu
    streams: [kernel]
    node: drain
    retry: move
    patterns: ['NVRM: loading NVIDIA UNIX .{0,40} 535\.54\.']
    examples: ['NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.54.03']
"""


def test_rules_are_read_and_go_before_those_of_weft(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(GOOD)
    book = read_rules(file)
    store = book.match(Line("OurStore: quorum 2 of 9"))
    assert store is not None
    assert (store.kind, store.service, store.cure) == (
        FailureClass.SERVICE,
        "our store",
        Retry.BACK_OFF,
    )
    driver = book.by_name["old_driver"]
    assert driver.node_action(Stream.KERNEL) is NodeAction.DRAIN
    known = book.match(Line("CUDA out of memory"))
    assert known is not None and known.name == "cuda_oom"


ONE = """
rules:
  - name: mine
    says: it is mine
    kind: user
    patterns: ['my own error']
    examples: ['my own error']
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("'my own error']\n    ex", "'my own.*error']\n    ex", "repeats without a bound"),
        ("'my own error']\n    ex", "'(a|b)my own']\n    ex", "group of another kind"),
        ("'my own error']\n    ex", "'abc']\n    ex", "without a plain word"),
        ("'my own error']\n    ex", "'(?:my own error']\n    ex", "leaves a group open"),
        ("examples: ['my own error']", "examples: ['yours']", "does not fit"),
        ("examples: ['my own error']", "examples: []", "too few"),
        ("kind: user", "kind: mine", "none of them"),
        ("kind: user", "kind: service", "does not name the service"),
        ("kind: user", "kind: user\n    retry: requeue", "none of them"),
        ("kind: user", "kind: user\n    streams: [kernels]", "none of them"),
        ("kind: user", "kind: user\n    pattern: x", "there is no such field"),
        ("name: mine", "name: my rule", "no usable name"),
        ("name: mine", "name: cuda_oom", "a built-in rule is called cuda_oom"),
        ("name: mine", "name: 7", "is not text"),
        (ONE, "rules: []", "neither rules nor services"),
        (ONE, "rules: 7", "is not a list"),
        (ONE, "- 7", "holds no fields"),
        (ONE, "", "holds no fields"),
        (ONE, "rules: &a [*a]", "anchors"),
    ],
)
def test_what_cannot_work_is_refused_with_a_hint(old: str, new: str, told: str) -> None:
    assert old in ONE
    with pytest.raises(SpecError, match=told) as raised:
        parse_rules(ONE.replace(old, new), name="mine.yaml")
    assert raised.value.hint
    assert str(raised.value).startswith("mine.yaml")


def test_the_line_of_the_fault_is_told() -> None:
    with pytest.raises(SpecError, match=r"mine\.yaml line 5, rules\[0\]\.kind"):
        parse_rules(ONE.replace("kind: user", "kind: none"), name="mine.yaml")


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(SpecError, match="cannot be read") as raised:
        read_rules(Path("/nowhere/rules.yaml"))
    assert raised.value.hint == "check the path"


def test_what_was_written_never_reaches_a_terminal_raw() -> None:
    for old in ("kind: user", "says: it is mine", "name: mine"):
        field = old.partition(":")[0]
        with pytest.raises(SpecError) as raised:
            parse_rules(ONE.replace(old, f'{field}: "\\e[31mred"'), name="mine.yaml")
        assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("http://store.lab", Address("store.lab", 80, "/")),
        (
            "https://store.lab:9000/health?deep=1",
            Address("store.lab", 9000, "/health?deep=1", True),
        ),
        ("tcp://10.0.0.7:8020", Address("10.0.0.7", 8020)),
        ("http://[::1]:9000/", Address("::1", 9000, "/")),
    ],
)
def test_a_file_may_say_where_a_service_is(written: str, address: Address) -> None:
    assert parse_services(f"services: {{object store: '{written}'}}") == {"object store": address}
    assert parse_rules(f"services: {{object store: '{written}'}}").match(Line("CUDA out of memory"))


@pytest.mark.parametrize(
    "written",
    [
        "store.lab:9000",
        "tcp://store.lab",
        "ftp://store.lab",
        "http://:80/",
        "http://anna:secret@store.lab/",
        "http://store.lab:99999/",
        "http://[::1/",
        r"http://store.lab/a\r\nHost: other",
        "http://störe.lab/",
    ],
)
def test_what_is_no_address_is_refused_with_a_hint(written: str) -> None:
    with pytest.raises(SpecError, match="is no address") as raised:
        parse_services(f'services: {{http: "{written}"}}', name="mine.yaml")
    assert "tcp://HOST:PORT" in raised.value.hint
    assert str(raised.value).isprintable()


def test_a_service_that_no_rule_names_would_never_be_asked() -> None:
    with pytest.raises(SpecError, match="no rule names the service 'our store'"):
        parse_services("services: {our store: 'tcp://a:1'}")
    assert parse_services(GOOD + "services: {our store: 'tcp://a:1'}\n")
