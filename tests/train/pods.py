"""Pods of one job on this machine: each an agent with an address of its own, and an operator."""

import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

from tests.train.cradle import ROOT, Forked, begin
from tests.train.driving import FOLDERS, JOBS
from tests.train.lines import Line, NewestStep, read_lines
from tests.waiting import HANG_SECONDS, until
from weft.kube.reports.headship import Headship
from weft.kube.reports.meeting import Head, read_head
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import Outlook

Event = dict[str, Any]


class Operator:
    """Stands in for the operator's door: where the head is, and what was reported.

    Who leads is decided as the operator does it. One that does not `move` heads knows no terms.
    """

    def __init__(self) -> None:
        self.moves = False
        self.head: Head | None = None
        self.outlook = Outlook()
        self._turn = threading.Lock()
        self.deaf: set[int] = set()  # seats that cannot reach it
        self.unheard = 0
        self.claims: list[tuple[int, int, int]] = []  # seat, term and status
        self.reports: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/report"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def where(self) -> dict[str, Any]:
        if self.head is None:
            raise Refusal(404, "no head yet", hint="")
        return self.head.answer

    def say(self, seat: int, body: bytes) -> dict[str, Any]:
        said = read_head(body, epoch=json.loads(body)["epoch"], seat=seat)
        with self._turn:
            same = self.head is not None and self.head.epoch == said.epoch
            known = self.head.headship if self.head and same else Headship()
            headship = self._judged(known, said.headship)
            self.head = replace(said, headship=headship)
        led = {"term": headship.term, "lost": headship.lost}
        return {**led, **self.outlook.answer} if self.moves else {}

    def _judged(self, known: Headship, claim: Headship) -> Headship:
        status = 200
        try:
            return known.followed_by(claim)
        except Refusal as refusal:
            status = refusal.status
            raise
        finally:
            if (claim.seat, claim.term) != (known.seat, known.term):
                self.claims.append((claim.seat, claim.term, status))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        operator = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                operator.tokens.append(self.headers["Authorization"])
                self._serve(operator.where)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path.endswith("/head"):
                    self._serve(lambda: operator.say(int(self.path.split("/")[-2]), body))
                else:
                    operator.reports.append(json.loads(body))
                    self._answer(200, {})

            def _serve(self, work: Callable[[], dict[str, Any]]) -> None:
                if int(self.path.split("/")[-2]) in operator.deaf:
                    operator.unheard += 1
                    return
                try:
                    self._answer(200, work())
                except Refusal as refusal:
                    self._answer(refusal.status, {"error": str(refusal)})

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        return Handler


@dataclass
class Pod:
    """One pod's first process, and what it has told."""

    seat: int
    process: Forked
    folder: Path
    events: list[Event] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self._threads = [
            threading.Thread(target=self._read, args=(stream,), daemon=True)
            for stream in (self.process.stdout, self.process.stderr)
        ]
        for thread in self._threads:
            thread.start()

    def until(self, found: Callable[[Event], bool], seconds: float = HANG_SECONDS) -> Event:
        """The first event, past or to come, that is wanted."""

        def first() -> Event | None:
            return next((event for event in self.events if found(event)), None)

        with self.changed:
            event = self.changed.wait_for(first, seconds)
        assert event is not None, f"it did not happen on seat {self.seat}: {self.tail()}"
        return event

    def named(self, what: str) -> list[Event]:
        return [event for event in self.events if event["event"] == what]

    def steady(self, width: int, after: int = 0) -> Event:
        return self.until(
            lambda e: e["event"] == "steady" and e["width"] == width and e["epoch"] > after
        )

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = HANG_SECONDS) -> int:
        code = self.process.wait(seconds)
        for thread in self._threads:
            thread.join(HANG_SECONDS)
        return code

    def clear_up(self) -> None:
        """What goes with a pod that was killed."""
        card = json.loads((self.folder / "agent.json").read_text())
        shutil.rmtree(card["slots"], ignore_errors=True)
        for name in ("key", "agent.sock"):
            (self.folder / name).unlink(missing_ok=True)

    def tail(self) -> str:
        return "\n".join([*map(str, self.events[-30:]), *self.printed[-60:]])

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            event = None
            with suppress(ValueError):
                event = json.loads(line)
            with self.changed:
                if isinstance(event, dict) and "event" in event:
                    self.events.append(event)
                else:
                    self.printed.append(line.rstrip("\n"))
                self.changed.notify_all()


class Fleet:
    """The pods of one job, and those of its later starts."""

    def __init__(self, folder: Path, operator: Operator, command: tuple[str, ...]) -> None:
        self.folder, self.operator, self.command = folder, operator, command
        self.pods: list[Pod] = []
        self.variables: dict[str, str] = {}
        self._newest_step = NewestStep(folder)
        (folder / "token").write_text("a-token")

    def pod(self, seat: int, gpus: int = 1, *, epoch: int = 1, **variables: str) -> Pod:
        """Start one, as the operator would."""
        folder = self.folder / f"pod-{epoch}-{seat}"
        process = begin(
            ["pod", "--", *self.command],
            agent=True,
            folder=self.folder,
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                "WEFT_TEST_OUT": str(self.folder),
                "WEFT_AGENT_JSON": "1",
                "WEFT_JOB": "lab/job",
                "WEFT_EPOCH": str(epoch),
                "WEFT_SEAT": str(seat),
                "WEFT_SEAT_GPUS": str(gpus),
                "WEFT_POD_IP": f"127.0.0.{seat + 1}",
                "WEFT_FOLDER": str(folder),
                "WEFT_REPORT_URL": f"{self.operator.url}/{seat}",
                "WEFT_TOKEN_FILE": str(self.folder / "token"),
                "WEFT_TERMINATION_LOG": str(self._termination_log(epoch, seat)),
                **({"WEFT_HEAD": "1"} if seat == 0 else {}),
                **self.variables,
                **variables,
            },
        )
        self.pods.append(Pod(seat, process, folder))
        return self.pods[-1]

    def last_words(self, seat: int, epoch: int = 1) -> str:
        return (self.folder / f"last-{epoch}-{seat}").read_text()

    def lines(self, worker: int | str = "*") -> list[Line]:
        return read_lines(self.folder, worker)

    @property
    def newest_step(self) -> int:
        return self._newest_step()

    def reached(self, step: int, seconds: float = HANG_SECONDS) -> None:
        until(lambda: self.newest_step >= step, f"step {step}", state=self.tails, seconds=seconds)

    def tails(self) -> str:
        return "\n\n".join(f"seat {pod.seat}: {pod.tail()}" for pod in self.pods)

    def close(self) -> None:
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.process.send_signal(signal.SIGCONT)
                pod.process.kill()
            pod.wait()
            for stream in (pod.process.stdin, pod.process.stdout, pod.process.stderr):
                stream.close()
            if pod.process.returncode == -signal.SIGKILL:
                pod.clear_up()

    def _termination_log(self, epoch: int, seat: int) -> Path:
        path = self.folder / f"last-{epoch}-{seat}"
        path.touch()
        return path


@contextmanager
def fleet(folder: Path, script: str, *options: str, **variables: str) -> Iterator[Fleet]:
    """A job of `tests/train/jobs`, whose pods are ended at the latest with the test."""
    folder.mkdir(exist_ok=True)
    FOLDERS.append(folder)
    operator = Operator()
    pods = Fleet(folder, operator, (str(JOBS / script), *options))
    pods.variables = variables
    try:
        yield pods
    finally:
        pods.close()
        operator.close()
