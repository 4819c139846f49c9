"""`docs/api.md`, written from the routes themselves: `python -m weft.api.page > docs/api.md`.

A test holds the page against this text, so that no address changes without its documentation.
"""

import sys
from collections.abc import Iterator
from typing import Any, cast

from weft.api.answers import JSON
from weft.api.app import create_app
from weft.api.backend import Backend
from weft.api.errors import CODES
from weft.api.routes import ADMINISTRATOR, EVERYBODY, OWNER

ABOUT = """\
# The HTTP API

This page is written by `python -m weft.api.page` from the routes themselves.

The daemon of `weft local up` answers on a Unix socket; try it with

    curl --unix-socket /run/weft/weft.sock http://weft/v1/jobs?everyone=true

The kernel says who asks: there is no password and no token, and a request whose user is not known
is not looked at. Jobs are named for each owner, and a route about one job means the asker's own
unless `owner` names somebody else. Everybody may read the list (names, states, GPUs); what is said
about a job in words, its log and its end are for its owner, for root, and for whoever started the
daemon.

Answers are JSON. Bodies may hold 1 MiB, and fields and parameters that are not listed are refused.
`/openapi.json` has the types.

A stream breaks its silence every ten seconds and says when it has come to its end; one that ends
without was cut off. Logs are NDJSON: `{"rank", "epoch", "text", "node"}` for each line (`base64` in
place of `text` where it is no UTF-8), empty lines between, at last `{"end": true}`. Changes are
server-sent events: `data:` with the job, comments between, at last an event of type `end`. What
goes wrong on the way is the last line, or an event of type `error`, and looks like any other error.
"""
ERRORS = 'An error is `{"error", "hint", "code"}`; the code says which kind it is.\n'
WHO = {
    EVERYBODY: "everybody",
    OWNER: "the job's owner, administrators",
    ADMINISTRATOR: "administrators",
}


OTHERS = (
    ("internal", 500, "A defect: the server's log has the rest"),
    ("identity", 401, "It is not known who asks"),
    ("crowded", 429, "One user has too many connections open"),
    ("request", "400, 404, 405, 408, 413", "This is no request that the server takes"),
)


def page() -> str:
    """The whole page; no backend is asked for it."""
    schema = create_app(cast(Backend, None)).openapi()
    addresses = "\n".join(
        _address(f"{method.upper()} {path}", route, schema["components"]["schemas"])
        for path, routes in schema["paths"].items()
        for method, route in routes.items()
    )
    return f"{ABOUT}\n## Addresses\n\n{addresses}\n## Errors\n\n{_errors()}"


def _address(name: str, route: dict[str, Any], schemas: dict[str, Any]) -> str:
    asked = ", ".join(_asked(route, schemas)) or "nothing"
    who = WHO[route["tags"][0]]
    return f"### {name}\n\n{route['description']}\n\nFor {who}. Takes {asked}.\n"


def _asked(route: dict[str, Any], schemas: dict[str, Any]) -> Iterator[str]:
    for parameter in route.get("parameters", ()):
        if parameter["in"] == "query":
            yield f"`{parameter['name']}`"
    if "requestBody" in route:
        body = route["requestBody"]["content"][JSON]["schema"]
        fields = schemas[str(body["$ref"]).rpartition("/")[2]]["properties"]
        yield "a body with " + ", ".join(f"`{field}`" for field in fields)


def _errors() -> str:
    kinds = [(code, status, kind.__doc__ or "") for kind, (status, code) in CODES.items()]
    rows = [*(row for row in kinds if row[0] != "internal"), *OTHERS]
    table = "".join(
        f"| `{code}` | {status} | {text.rstrip('.')} |\n" for code, status, text in rows
    )
    return f"{ERRORS}\n| code | status | meaning |\n|---|---|---|\n{table}"


if __name__ == "__main__":
    sys.stdout.write(page())
