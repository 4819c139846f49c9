"""A notice in the words of each way: a CloudEvent, a message to Slack, a mail."""

from dataclasses import asdict
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import Any, Final

from weft.notify.notice import Notice

TYPE: Final = "dev.weft.job.{occasion}.v1"
SLACK_ESCAPES: Final = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"))


def cloud_event(notice: Notice, source: str) -> dict[str, Any]:
    """CloudEvents 1.0, structured: https://cloudevents.io."""
    failure = None if notice.failure is None else asdict(notice.failure)
    if failure is not None and notice.failure is not None:
        at = notice.failure.at
        failure["at"] = None if at is None else at.isoformat()
    return {
        "specversion": "1.0",
        "id": notice.number,
        "source": source,
        "type": TYPE.format(occasion=notice.occasion.value),
        "subject": f"{notice.namespace}/{notice.job}",
        "time": datetime.fromtimestamp(notice.at_seconds, UTC).isoformat(),
        "datacontenttype": "application/json",
        "data": {
            "namespace": notice.namespace,
            "job": notice.job,
            "queue": notice.queue,
            "state": notice.state,
            "text": notice.title,
            "failure": failure,
        },
    }


def slack(notice: Notice) -> dict[str, Any]:
    """Plain text: what a program printed must not become a link, a mention or markup."""
    text = "\n".join((notice.title, *notice.details))
    for sign, escape in SLACK_ESCAPES:
        text = text.replace(sign, escape)
    return {"text": text, "mrkdwn": False}


def mail(notice: Notice, sender: str, to: tuple[str, ...]) -> EmailMessage:
    message = EmailMessage()
    message["Subject"] = f"[weft] {notice.title}"
    message["From"] = sender
    message["To"] = ", ".join(to)
    message["Message-ID"] = f"<{notice.number}@weft>"
    message.set_content("\n".join((notice.title, "", *notice.details)))
    return message
