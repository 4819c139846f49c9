"""Rules for failures of one's own, in YAML: read, checked, and put before those of Weft.

A file holds `rules`, a list in the words of `weft/failure/rules.toml`. Each brings examples and
must name them itself; a pattern that could take long on some line is refused (`failure.pattern`).
`services` says where services are that rules name, so that somebody can ask whether they answer.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.lines import Stream
from weft.failure.pattern import pattern
from weft.failure.rule import MOST_NAME, Role, Rule
from weft.failure.rulebook import RuleBook, rule_of, shipped
from weft.model.errors import SpecError
from weft.reconcile.services import Address
from weft.spec.document import parse_document, read_bounded
from weft.spec.fault import shown
from weft.spec.reading import validated
from weft.spec.strict import Strict, told, wrong

MOST_RULES: Final = 200
MOST_PATTERNS: Final = 30
MOST_EXAMPLES: Final = 10
MOST_TEXT: Final = 500
MOST_SERVICES: Final = 50
PORTS: Final = {"http": 80, "https": 443, "tcp": None}

KINDS: Final = tuple(kind.value for kind in FailureClass)
ROLES: Final = tuple(role.name.lower() for role in Role)
STREAMS: Final = tuple(stream.value for stream in Stream)
NODES: Final = tuple(action.name.lower() for action in NodeAction)
CURES: Final = tuple(cure.value for cure in Retry if cure is not Retry.REQUEUE)


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    def check(written: str) -> str:
        if written not in names:
            raise wrong(f"{shown(written)} is none of them", hint=f"one of: {', '.join(names)}")
        return written

    return check


def _safe(written: str) -> str:
    try:
        pattern(written)
    except SpecError as error:
        raise wrong(str(error), hint=error.hint) from None
    return written


def _printable(written: str) -> str:
    if not written.isprintable():
        raise wrong(f"{shown(written)} does not print", hint="leave out control characters")
    return written


def address_of(written: str) -> Address:
    """`http://host:port/path` and its like; what it carries besides is refused."""
    try:
        parts = urlsplit(written)
        port = parts.port
    except ValueError:
        raise _no_address(written) from None
    port = PORTS.get(parts.scheme) if port is None else port
    plain = written.isascii() and written.isprintable() and " " not in written
    if not (plain and parts.scheme in PORTS and parts.hostname and port) or "@" in parts.netloc:
        raise _no_address(written)
    if parts.scheme == "tcp":
        return Address(parts.hostname, port)
    query = f"?{parts.query}" if parts.query else ""
    return Address(parts.hostname, port, f"{parts.path or '/'}{query}", parts.scheme == "https")


def _no_address(written: str) -> Exception:
    return wrong(
        f"{shown(written)} is no address",
        hint="write http://HOST:PORT/PATH, https://HOST/PATH or tcp://HOST:PORT, with no password",
    )


def _reachable(written: str) -> str:
    address_of(written)
    return written


Example = Annotated[str, Field(min_length=1, max_length=MOST_TEXT)]
Text = Annotated[Example, AfterValidator(_printable)]
Place = Annotated[str, Field(max_length=MOST_TEXT), AfterValidator(_reachable)]
SafePattern = Annotated[str, AfterValidator(_safe)]


class OwnRule(Strict):
    """One rule as it is written."""

    name: str = told(
        ...,
        "How it is called everywhere.",
        allowed=f"letters, digits and _, at most {MOST_NAME}",
        example="our_store",
        max_length=MOST_NAME,
    )
    says: Text = told(
        ...,
        "What happened, in a sentence.",
        allowed=f"text of at most {MOST_TEXT} characters",
        example="our store is down",
    )
    kind: Annotated[str, AfterValidator(_one_of(KINDS))] = told(
        ...,
        "The class, which brings whose fault it is and what a retry can do.",
        allowed=", ".join(KINDS),
        example="service",
    )
    patterns: list[SafePattern] = told(
        ...,
        "Regular expressions of which any may fit; repetitions have bounds.",
        allowed=f"1 to {MOST_PATTERNS} patterns",
        example=["OurStore: quorum lost"],
        min_length=1,
        max_length=MOST_PATTERNS,
    )
    examples: list[Example] = told(
        ...,
        "Lines that the rule must name.",
        allowed=f"1 to {MOST_EXAMPLES} lines",
        example=["OurStore: quorum lost"],
        min_length=1,
        max_length=MOST_EXAMPLES,
    )
    role: Annotated[str, AfterValidator(_one_of(ROLES))] = told(
        "root", "How much it says of the cause.", allowed=", ".join(ROLES), example="root"
    )
    streams: list[Annotated[str, AfterValidator(_one_of(STREAMS))]] = told(
        ["app"],
        "Who may say it.",
        allowed=", ".join(STREAMS),
        example=["app"],
        min_length=1,
        max_length=len(STREAMS),
    )
    node: Annotated[str, AfterValidator(_one_of(NODES))] | None = told(
        None, "What follows for the node.", allowed=", ".join(NODES), example="suspect"
    )
    retry: Annotated[str, AfterValidator(_one_of(CURES))] | None = told(
        None, "What may cure it.", allowed=", ".join(CURES), example="back off"
    )
    service: Text | None = told(
        None, "The service that failed.", allowed="its name", example="our store"
    )
    advice: Text | None = told(
        None, "What its owner can do.", allowed="a sentence", example="ask #storage"
    )

    @model_validator(mode="after")
    def _is_a_rule(self) -> "OwnRule":
        try:
            self.rule()
        except SpecError as error:
            raise wrong(str(error), hint=error.hint) from None
        return self

    def rule(self) -> Rule:
        """The same as the value that decides."""
        return rule_of(self.model_dump(exclude_none=True))


class OwnRules(Strict):
    """The document."""

    rules: list[OwnRule] = told(
        [],
        "Rules in order; the first that fits names a line.",
        allowed=f"up to {MOST_RULES} rules",
        example=[],
        max_length=MOST_RULES,
    )
    services: dict[Text, Place] = told(
        {},
        "Where services are that rules name.",
        allowed=f"up to {MOST_SERVICES}: http://…, https://… or tcp://HOST:PORT for each",
        example={"our store": "http://store.example.org:9000/health"},
        max_length=MOST_SERVICES,
    )

    @model_validator(mode="after")
    def _says_something(self) -> "OwnRules":
        if not (self.rules or self.services):
            raise wrong("neither rules nor services", hint="write `rules:` and a list under it")
        return self


def read_rules(path: Path, book: RuleBook | None = None) -> RuleBook:
    """A book of rules with those of a file in front."""
    return parse_rules(read_bounded(path), name=path.name, book=book)


def parse_rules(
    text: str | bytes, *, name: str = "rules", book: RuleBook | None = None
) -> RuleBook:
    """The same from text; `name` is how messages call it."""
    own = [one.rule() for one in _parsed(text, name).rules]
    try:
        return (book or shipped()).with_rules(own) if own else book or shipped()
    except SpecError as error:
        raise SpecError(f"{name}: {error}", hint=error.hint) from None


def read_services(path: Path) -> dict[str, Address]:
    """Where the services are of which a file says so."""
    return parse_services(read_bounded(path), name=path.name)


def parse_services(text: str | bytes, *, name: str = "rules") -> dict[str, Address]:
    """The same from text; one that no rule names would never be asked."""
    own, known = _parsed(text, name), parse_rules(text, name=name)
    named = sorted({rule.service for rule in known.rules if rule.service})
    for service in own.services:
        if service not in named:
            raise SpecError(
                f"{name}: no rule names the service {shown(service)}",
                hint=f"one of: {', '.join(named)}",
            )
    return {service: address_of(place) for service, place in own.services.items()}


def _parsed(text: str | bytes, name: str) -> OwnRules:
    document = parse_document(text, name=name)
    value: Any = document.value
    if not isinstance(value, dict):
        raise SpecError(f"{name}: holds no fields", hint="write `rules:` and a list under it")
    return validated(OwnRules, value, name=name, lines=document.lines)
