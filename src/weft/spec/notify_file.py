"""Where notices go and who is told of what, in YAML: read and checked before a world begins.

    targets:
      team: {kind: slack, url_file: /etc/weft/slack-url}
      hook: {kind: webhook, url: https://hooks.example.org/weft, token_file: /etc/weft/token}
      mail: {kind: mail, host: smtp.example.org, sender: weft@example.org, to: [ml@example.org]}
    rules:
      - {on: [failed], to: [team], queue: research}

Secrets lie in files of their own and never in this one.
"""

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from weft.model.errors import SpecError
from weft.notify.notice import Occasion
from weft.notify.outbox import Outbox
from weft.notify.subscription import Rule, Subscriptions
from weft.notify.target import Mail, Slack, Target, Webhook
from weft.spec.document import parse_document, read_bounded
from weft.spec.fault import shown
from weft.spec.notify_fields import OCCASIONS, OccasionName, TargetName
from weft.spec.reading import validated
from weft.spec.strict import Strict, told, wrong

MOST_TARGETS: Final = 50
MOST_RULES: Final = 200
SMTP_PORT: Final = 587


def _address(written: str) -> str:
    if not written.startswith(("https://", "http://")) or not written.isprintable():
        raise wrong(f"{shown(written)} is no address", hint="it begins with https:// or http://")
    return written


def _mail_address(written: str) -> str:
    if written.count("@") != 1 or not written.isprintable() or " " in written:
        raise wrong(f"{shown(written)} is no mail address", hint="write name@example.org")
    return written


Address = Annotated[str, Field(max_length=2_000), AfterValidator(_address)]
MailAddress = Annotated[str, Field(max_length=254), AfterValidator(_mail_address)]
Occasions = Annotated[list[OccasionName], Field(min_length=1, max_length=len(OCCASIONS))]
FilePath = Annotated[str, Field(min_length=1, max_length=4_096)]


class TargetFile(Strict):
    """One way to somebody, as it is written."""

    kind: Literal["webhook", "slack", "mail"] = told(
        ..., "How it is told.", allowed="webhook, slack or mail", example="webhook"
    )
    url: Address | None = told(
        None,
        "Where a webhook takes CloudEvents.",
        allowed="an address",
        example="https://hooks.example.org/weft",
    )
    token_file: FilePath | None = told(
        None, "File with a webhook's token.", allowed="a path", example="/etc/weft/token"
    )
    url_file: FilePath | None = told(
        None,
        "File with the address of a Slack webhook, which is its secret.",
        allowed="a path",
        example="/etc/weft/slack-url",
    )
    host: Annotated[str, Field(max_length=253)] | None = told(
        None, "Mail server.", allowed="a name", example="smtp.example.org"
    )
    port: Annotated[int, Field(ge=1, le=65_535)] = told(
        SMTP_PORT, "Its port.", allowed="1 to 65535", example=587
    )
    sender: MailAddress | None = told(
        None, "Whom mail comes from.", allowed="a mail address", example="weft@example.org"
    )
    to: Annotated[list[MailAddress], Field(max_length=50)] = told(
        [], "Whom mail goes to.", allowed="mail addresses", example=["ml@example.org"]
    )
    user: Annotated[str, Field(max_length=200)] = told(
        "", "Name at the mail server.", allowed="text", example="weft"
    )
    password_file: FilePath | None = told(
        None, "File with the password there.", allowed="a path", example="/etc/weft/password"
    )
    tls: bool = told(True, "Whether mail is sent over TLS.", allowed="true or false", example=True)

    def target(self, name: str, source: str) -> Target:
        """What it means, or what it lacks."""
        if self.kind == "webhook" and self.url:
            return Webhook(self.url, source, _path(self.token_file))
        if self.kind == "slack" and self.url_file:
            return Slack(Path(self.url_file))
        if self.kind == "mail" and self.host and self.sender and self.to:
            return self._mail(self.host, self.sender)
        needs = {"webhook": "url", "slack": "url_file", "mail": "host, sender and to"}
        raise SpecError(
            f"target {name} lacks something", hint=f"a {self.kind} needs {needs[self.kind]}"
        )

    def _mail(self, host: str, sender: str) -> Mail:
        if self.password_file is not None and not self.tls:
            raise SpecError(
                f"{host}: a password would go over the wire in clear", hint="leave tls: true"
            )
        return Mail(
            host,
            self.port,
            sender,
            tuple(self.to),
            self.user,
            _path(self.password_file),
            self.tls,
        )


class RuleFile(Strict):
    """Who is told on which occasions."""

    on: Occasions = told(..., "When.", allowed=", ".join(OCCASIONS), example=["failed"])
    to: Annotated[list[TargetName], Field(min_length=1, max_length=20)] = told(
        ..., "Names of targets.", allowed="names", example=["team"]
    )
    queue: str = told("", "Only jobs of this queue.", allowed="a queue", example="research")
    owner: str = told("", "Only jobs of this user or namespace.", allowed="a name", example="anna")


class NotifyFile(Strict):
    """All of it."""

    targets: Annotated[dict[TargetName, TargetFile], Field(max_length=MOST_TARGETS)] = told(
        ..., "Ways to people and machines, by name.", allowed="", example={}
    )
    rules: Annotated[list[RuleFile], Field(max_length=MOST_RULES)] = told(
        [], "Who is told of what.", allowed="", example=[]
    )


def read_outbox(path: Path, source: str) -> Outbox:
    """An outbox as the file says; `source` is how this world calls itself."""
    document = parse_document(read_bounded(path), name=path.name)
    written = validated(NotifyFile, document.value, name=path.name, lines=document.lines)
    targets = {name: one.target(name, source) for name, one in written.targets.items()}
    for rule in written.rules:
        if unknown := [name for name in rule.to if name not in targets]:
            raise SpecError(
                f"{path}: there is no target {unknown[0]}", hint=f"there are: {', '.join(targets)}"
            )
    rules = (
        Rule(frozenset(map(Occasion, one.on)), tuple(one.to), one.queue, one.owner)
        for one in written.rules
    )
    return Outbox(targets, Subscriptions(tuple(rules)))


def _path(written: str | None) -> Path | None:
    return None if written is None else Path(written)
