"""Servers of a test's own that take messages: one over HTTP, one for mail."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Heard:
    """What came in; `answers` are the statuses that are given first, then 200."""

    port: int = 0
    answers: list[int] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook/secret-part"


@contextmanager
def a_hook() -> Iterator[Heard]:
    heard = Heard()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            heard.bodies.append(json.loads(self.rfile.read(length)))
            heard.headers.append(dict(self.headers.items()))
            self.send_response(heard.answers.pop(0) if heard.answers else 200)
            self.send_header("Location", heard.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    heard.port = server.server_address[1]
    with _serving(server):
        yield heard


@contextmanager
def a_post_office() -> Iterator[Heard]:
    """As much of SMTP as a mail needs."""
    heard = Heard()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            while line := self.rfile.readline().decode().strip():
                word = line.split()[0].upper()
                if word == "DATA":
                    self._say("354 go on")
                    heard.mails.append(self._letter())
                self._say("221 bye" if word == "QUIT" else "250 ok")
                if word == "QUIT":
                    return

        def _letter(self) -> str:
            lines = []
            while (line := self.rfile.readline()) not in (b".\r\n", b""):
                lines.append(line.decode())
            return "".join(lines)

        def _say(self, text: str) -> None:
            self.wfile.write(f"{text}\r\n".encode())

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    heard.port = server.server_address[1]
    with _serving(server):
        yield heard


@contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
