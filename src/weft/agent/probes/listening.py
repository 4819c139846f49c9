"""Whether a machine is well, for whoever asks over HTTP before it starts something large there.

`GET /probe?within=60` is answered with what was found within the last minute, and looked for now
where nothing was: `{"passed": true, "words": ""}`. Nobody can ask for more than that, nor keep the
machine busy by asking often.
"""

import json
import socket
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from weft.agent.probes.prober import LEAST_SECONDS, Prober

PATH: Final = "/probe"
MOST_ASKERS: Final = 16
IDLE_SECONDS: Final = 5.0  # for somebody to say what he wants
USUAL_SECONDS: Final = 60.0


class Listening:
    """Answers until closed."""

    def __init__(self, prober: Prober, port: int) -> None:
        self._server = _Server(port, prober)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Whoever has asked is answered first."""
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """On every address of the machine, of both families where it has both."""

    daemon_threads = False
    request_queue_size = 2 * MOST_ASKERS
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int, prober: Prober) -> None:
        self.prober = prober
        self.askers = threading.BoundedSemaphore(MOST_ASKERS)
        super().__init__(("", port), _Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def handle_error(self, request: object, client_address: object) -> None:
        """Who left before the answer misses nothing but that."""


class _Handler(BaseHTTPRequestHandler):
    timeout = IDLE_SECONDS
    server: _Server

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        within = _seconds(parse_qs(asked.query).get("within", [""])[0])
        if asked.path != PATH or within is None:
            self._say(HTTPStatus.NOT_FOUND, {})
        elif not self.server.askers.acquire(blocking=False):
            self._say(HTTPStatus.SERVICE_UNAVAILABLE, {})
        else:
            try:
                self._answer(max(within, LEAST_SECONDS))
            finally:
                self.server.askers.release()

    def _answer(self, within: float) -> None:
        found = self.server.prober.look(within)
        self._say(HTTPStatus.OK, {"passed": found.passed, "words": found.words})

    def _say(self, status: HTTPStatus, told: dict[str, object]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def _seconds(text: str) -> float | None:
    if not text:
        return USUAL_SECONDS
    return float(text) if text.isdecimal() else None
