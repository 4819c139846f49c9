"""Real processes that really fail: each is named with its line and handled as its class says.

One daemon serves them all, side by side with a healthy job that notices nothing.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.local.daemons import Lab, a_lab, wait_until
from tests.local.troubles import a_memory_cgroup, a_service, a_small_disk
from tests.notify.servers import a_hook
from tests.waiting import HANG_SECONDS
from weft.agent.evidence import EVIDENCE, parsed
from weft.agent.probes.probe import Result
from weft.failure import breaker
from weft.failure.diagnosis import Diagnosis
from weft.failure.written import read
from weft.local.machine.fitness import Probing, gang_probing_in
from weft.view.logs import Which

ROOT: Final = Path(__file__).parents[2]
AGENT: Final = "tests.local.impatient_agent"

HEALTHY = "import time\nfor step in range(10_000): print('step', step, flush=True); time.sleep(.1)"
EATS = """
import sys
held = []
while True:
    held.append(bytearray(b"x") * (8 << 20))
"""
READS = """
import sys, time
while True:
    print("read", len(open(sys.argv[1]).read()), flush=True)
    time.sleep(0.05)
"""
WRITES = """
import sys
with open(sys.argv[1], "wb", buffering=0) as file:
    for _ in range(64):
        assert file.write(b"x" * (1 << 20)) == 1 << 20
"""
ASKS = """
import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=5).read())
"""
ONE_RANK = """
import os, socket, time
address = ("127.0.0.1", int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    server = socket.create_server(address)
    peer, _ = server.accept()
    if not peer.recv(1):
        raise RuntimeError("Connection closed by peer [127.0.0.1]:29500")
time.sleep(0.3)
peer = socket.create_connection(address)
{"input_ids": 0}["labels"]
"""
HANGS = """
import threading, torch, weft
from torch import nn
data = torch.utils.data.TensorDataset(torch.zeros(64, 1))
model, opt = weft.prepare(nn.Linear(1, 1), lambda p: torch.optim.SGD(p, lr=0.1))
def stands_still():
    threading.Event().wait()
for number, (x,) in enumerate(weft.steps(weft.loader(data, global_batch=4), total=1000)):
    if number == 3:
        stands_still()
    weft.backward(model(x).sum())
    opt.step()
    opt.zero_grad()
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with a_lab(slots=12, agent=AGENT) as lab:
        lab.start()
        submit(lab, "healthy", HEALTHY)
        yield lab
        healthy = lab.entry("healthy")
        assert (healthy.state.name, healthy.epoch, healthy.past.failures) == ("RUNNING", 1, 0)


def submit(
    lab: Lab, name: str, program: str, *given: str, gpus: int = 1, before: str = "", **spec: Any
) -> Path:
    script = lab.folder / f"{name}.py"
    script.write_text(program)
    words = " ".join((sys.executable, str(script), *given))
    run = f"{before}exec {words}" if before else words
    lab.submit(name, run, gpus=gpus, env={"PYTHONPATH": str(ROOT / "src")}, **spec)
    return script


def found(lab: Lab, name: str) -> list[Diagnosis]:
    """What each failed try of a job was taken for, the first one first."""
    ends = [one.failure for one in lab.history(name) if one.failure is not None]
    return [one for end in ends if (one := read(end["diagnosis"])) is not None]


def failed(lab: Lab, name: str, seconds: float = HANG_SECONDS) -> list[Diagnosis]:
    lab.wait_for(name, "Failed", seconds=seconds)
    return found(lab, name)


def test_a_syntax_error_is_final_at_once(lab: Lab) -> None:
    script = submit(lab, "syntax", "def f(:\n")
    (why,) = failed(lab, "syntax")
    assert lab.entry("syntax").epoch == 1, "it was not tried again"
    assert (why.kind, why.rule, why.rank) == ("user", "syntax_error", 0)
    assert why.line == "SyntaxError: invalid syntax", script


def test_an_import_error_is_final(lab: Lab) -> None:
    submit(lab, "import", "import nothing_of_that_name")
    (why,) = failed(lab, "import")
    assert (why.kind, why.rule) == ("environment", "import_error")
    assert why.line == "ModuleNotFoundError: No module named 'nothing_of_that_name'"


def test_a_process_that_the_kernel_killed_for_want_of_memory(lab: Lab) -> None:
    with a_memory_cgroup(64) as group:
        if group is None:  # nobody lets us have one: then the program meets its own limit
            submit(lab, "memory", EATS, before="ulimit -v 300000; ")
        else:
            enter = "".join(f"echo {who} > {group}/cgroup.procs; " for who in ("$PPID", "$$"))
            submit(lab, "memory", EATS, before=enter)
        (why,) = failed(lab, "memory")
    assert (why.kind, why.rule) == ("memory", "oom_killer" if group else "host_oom_python")


def test_a_file_that_is_removed_in_mid_run(lab: Lab) -> None:
    data = lab.folder / "shard.bin"
    data.write_text("data")
    submit(lab, "data", READS, str(data))
    wait_until(lambda: bool(printed(lab, "data")), "its first read", lab.log)
    data.unlink()
    first, second = failed(lab, "data")  # one try to see whether it comes again
    assert (first.kind, first.rule) == ("input", "input_missing")
    assert str(data) in first.line and second.fingerprint == first.fingerprint


def test_a_worker_that_somebody_kills_is_tried_again(lab: Lab) -> None:
    submit(lab, "killed", "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    wait_until(lambda: bool(printed(lab, "killed")), "its number", lab.log)
    os.kill(int(printed(lab, "killed")[0]), signal.SIGKILL)
    wait_until(lambda: lab.entry("killed").epoch == 2, "another try", lab.log)
    (why,) = found(lab, "killed")
    assert (why.kind, why.rule) == ("unknown", "bare_kill")
    assert why.line == "exit code 137 (SIGKILL)"


def test_a_disk_that_is_full(lab: Lab) -> None:
    with a_small_disk(lab.folder / "disk") as disk:
        submit(lab, "disk", WRITES, str(disk))
        wait_until(lambda: bool(found(lab, "disk")), "its end", lab.log)
    why = found(lab, "disk")[0]
    assert (why.kind, why.rule) == ("node", "disk_full")
    assert "No space left on device" in why.line


@pytest.mark.enable_socket
def test_a_storage_service_that_does_not_answer(lab: Lab) -> None:
    with a_service() as service:
        submit(lab, "service", ASKS, service.url)
        wait_until(lambda: bool(found(lab, "service")), "its end", lab.log)
        why = found(lab, "service")[0]
        assert (why.kind, why.rule) == ("service", "http_failed")
        service.start()
        lab.wait_for("service", "Succeeded")


@pytest.mark.enable_socket
def test_all_wait_for_a_service_that_is_down_and_come_back(
    tmp_path: Path,
) -> None:
    rules, names = tmp_path / "rules.yaml", [f"reader-{number}" for number in range(8)]
    with a_service() as service, hasty_breakers():
        rules.write_text(f"services: {{http: '{service.url}'}}\n")
        with a_lab(slots=4, agent=AGENT, failure_rules=rules) as lab:
            lab.start()
            for name in names:
                submit(lab, name, ASKS, service.url)
            wait_until(lambda: lab.health().breaker("http").is_open, "the breaker", lab.log)
            wait_until(lambda: bool(all_tried(lab, names)), "all have tried it", lab.log)
            told = weft(lab, "why", names[0])
            assert "Breaker.Open" in told and "http does not answer" in told
            asked = lab.log.read_text().count("http does not answer")
            wait_until(
                lambda: lab.log.read_text().count("http does not answer") > asked, "asks", lab.log
            )
            restarts = sum(lab.entry(name).epoch - 1 for name in names)
            assert restarts <= MOST_RESTARTS
            service.start()
            for name in names:
                lab.wait_for(name, "Succeeded")
            assert not lab.health().blames.entries and not lab.health().aside
            assert all(lab.entry(name).epoch <= 3 for name in names)


MOST_RESTARTS: Final = 10


@contextmanager
def hasty_breakers() -> Iterator[None]:
    """Minutes become seconds; what decides is the same."""
    with ExitStack() as stack:
        for name, value in (("probe_seconds", 0.5), ("spread_seconds", 1.0)):
            stack.callback(object.__setattr__, breaker.TERMS, name, getattr(breaker.TERMS, name))
            object.__setattr__(breaker.TERMS, name, value)
        yield


def all_tried(lab: Lab, names: list[str]) -> bool:
    return all(found(lab, name) for name in names[:4])


def test_an_exception_on_one_rank_only(lab: Lab) -> None:
    submit(lab, "rank", ONE_RANK, gpus=2, nproc_per_node="gpu")
    (why,) = failed(lab, "rank")
    assert (why.kind, why.rule, why.rank) == ("user", "python_semantic", 1)
    assert why.line == "KeyError: 'labels'"


def test_a_hang_is_ended_and_it_is_known_where_everybody_stood(lab: Lab) -> None:
    submit(lab, "hang", HANGS, gpus=2, nproc_per_node="gpu")
    wait_until(lambda: bool(found(lab, "hang")), "its end", lab.log, 120.0)
    why = found(lab, "hang")[0]
    assert (why.kind, why.rule) == ("hang", "hang_no_progress")
    assert why.line.startswith("hang: no progress for 2 s (limit 2)")
    folder = lab.folders().job(lab.entry("hang").uid) / "epoch-1"
    kept = parsed((folder / EVIDENCE).read_bytes())
    assert len(kept.workers) >= 2 and all("stands_still" in one.stacks for one in kept.workers)
    lab.client.cancel("hang")


def test_who_leaves_as_if_asked_by_nobody_is_not_started_without_end(lab: Lab) -> None:
    """It rests before the last try, and costs its owner none of the retries."""
    lab.submit("leaves", "exit 143", retry={"limit": 0})
    tries = failed(lab, "leaves", 120.0)
    assert [why.rule for why in tries] == ["exit_asked"] * 3
    entry = lab.entry("leaves")
    assert (entry.epoch, entry.past.failures) == (3, 3)
    assert "no new checkpoint" in entry.message


def printed(lab: Lab, name: str) -> list[str]:
    return [line.text.decode() for line in lab.client.logs(name, Which())]


def test_why_tells_the_owner_what_happened_and_what_to_do(lab: Lab) -> None:
    submit(lab, "whose", "raise KeyError('\\x1b[2J\\x1b[31mloss')")
    (why,) = failed(lab, "whose")
    told = weft(lab, "why", "whose")
    for part in (
        "the program made a mistake  [user: python_semantic]",
        "evidence: KeyError: '",
        "(rank 0, on ",
        "done: another try would end the same way",
        "to do: mend the program at the line shown and submit it again",
        "log: weft logs whose --epoch 1 --rank 0",
        "It is over: it failed",
    ):
        assert part in told, told
    assert "\x1b" not in told
    twin = json.loads(weft(lab, "why", "whose", "-o", "json"))["failure"]
    assert (twin["kind"], twin["rule"], twin["line"]) == (why.kind, why.rule, why.line)
    assert "done: another try would end the same way" in weft(lab, "show", "whose")


def weft(lab: Lab, *words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "weft.cli.main", *words, "--context", "local"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "src"),
            "COLUMNS": "160",
            "WEFT_LOCAL_SOCKET": str(lab.socket),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def test_causes_are_counted_by_what_they_cost(lab: Lab) -> None:
    submit(lab, "dear", "import time; time.sleep(1); {}['a']", gpus=2)
    failed(lab, "dear")
    told = json.loads(weft(lab, "failures", "-o", "json"))
    (one,) = (line for line in told["failures"] if line["job"] == "dear")
    assert 2.0 < one["lost_gpu_seconds"] < 20.0
    assert "user: python_semantic" in {cause["name"] for cause in told["cause"]}
    assert sum(cause["failures"] for cause in told["cause"]) == len(told["failures"])
    assert [one["name"] for one in told["owner"]] == [lab.entry("dear").owner.user]
    assert "user: python_semantic" in weft(lab, "failures")
    assert "user" in weft(lab, "failures", "--by", "class", "--everyone")


@pytest.mark.enable_socket
def test_what_is_known_of_failures_outlives_the_daemon() -> None:
    with a_lab(slots=2, agent=AGENT) as lab, a_service() as service:
        lab.start()
        submit(lab, "asks", ASKS, service.url)
        wait_until(lambda: bool(found(lab, "asks")), "its end", lab.log)
        wait_until(lambda: lab.entry("asks").past.retry is not None, "what is remembered", lab.log)
        lab.kill()
        lab.start()
        entry = lab.entry("asks")
        assert entry.past.retry is not None and entry.past.retry.attempts >= 1
        assert lab.health().breaker("http").strikes


def test_a_node_shows_what_is_held_against_it(lab: Lab) -> None:
    told = json.loads(weft(lab, "nodes", "-o", "json"))
    assert told["nodes"][0]["health"]["aside_since"] is None
    assert "health" in weft(lab, "nodes")


@pytest.mark.enable_socket
def test_who_wants_to_hear_of_a_job_is_told(tmp_path: Path) -> None:
    settings, own = tmp_path / "notify.yaml", tmp_path / "rules.yaml"
    own.write_text(
        "rules:\n- {name: our_store, says: our store is down, kind: service, service: our store,"
        " patterns: ['OurStore: quorum lost'], examples: ['OurStore: quorum lost']}\n"
    )
    with a_hook() as heard:
        settings.write_text(
            f"targets:\n  hook: {{kind: webhook, url: '{heard.url}'}}\n"
            f"  mine: {{kind: webhook, url: '{heard.url}?mine'}}\n"
            "rules: [{on: [started, failed, ended], to: [hook]}]\n"
        )
        with a_lab(slots=2, agent=AGENT, notify=settings, failure_rules=own) as lab:
            lab.start()
            asked = {"to": ["mine"], "on": ["failed"]}
            lab.submit("job", "sleep 0.3; {'a' 2>/dev/null; exit 126", notify=asked)
            lab.wait_for("job", "Failed")
            submit(lab, "store", "raise RuntimeError('OurStore: quorum lost')")
            wait_until(lambda: bool(found(lab, "store")), "its end", lab.log)
            assert found(lab, "store")[0].service == "our store"
            wait_until(lambda: len(heard.bodies) >= 6, "all notices", lab.log)
    told = [(one["type"].split(".")[3], one["subject"].split("/")[1]) for one in heard.bodies]
    assert told.count(("started", "job")) == 1 and told.count(("ended", "job")) == 1
    assert told.count(("failed", "job")) == 2, "by the rule, and by its own file"
    first = next(one for one in heard.bodies if "failed" in one["type"])
    assert first["data"]["failure"]["kind"] == "environment"


def test_nothing_starts_while_a_probe_of_the_machine_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_lab(slots=2, agent=AGENT) as lab:
        ill = lab.folder / "ill"
        ill.touch()

        def probing(_: Path) -> Probing:
            bad = Result(probe="memory", passed=False, text="mebibyte 3 is not what was written")
            return lambda: [bad] if ill.exists() else []

        monkeypatch.setattr("weft.local.term.probing_in", probing)
        monkeypatch.setattr("weft.local.machine.fitness.Fitness.__init__.__kwdefaults__", HASTY)
        lab.start()
        wait_until(lambda: "probe" in lab.log.read_text() or _closed(lab), "the probe", lab.log)
        submit(lab, "waits", "print('ran')")
        wait_until(lambda: "Health.Probe" in weft(lab, "why", "waits"), "its reason", lab.log)
        ill.unlink()
        lab.wait_for("waits", "Succeeded")


HASTY = {
    "gang_probing": None,
    "gang_seconds": 3600.0,
    "every_seconds": 0.2,
    "least_seconds": 0.1,
}


@pytest.mark.slow
def test_a_gang_waits_for_a_probe_that_it_is_not_started_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two ranks on gloo really sum; then they cannot any more, and whoever needs it waits."""
    with a_lab(slots=2, agent=AGENT, gang_probe_hours=1.0) as lab:
        ill = lab.folder / "ill"

        def probing(folder: Path) -> Probing:
            bad = Result(probe="pair", passed=False, text="Connection refused")
            usual = gang_probing_in(folder)
            return lambda: [bad] if ill.exists() else usual()

        monkeypatch.setattr("weft.local.term.gang_probing_in", probing)
        monkeypatch.setattr("weft.local.daemon.HOUR_SECONDS", 0.001)  # each gang anew
        lab.start()
        submit(lab, "gang", "print('ran')", gpus=2)
        lab.wait_for("gang", "Succeeded")
        ill.touch()
        submit(lab, "waits", "print('ran')", gpus=2)
        wait_until(lambda: "Health.Probe" in weft(lab, "why", "waits"), "its reason", lab.log)
        assert "pair: Connection refused" in weft(lab, "why", "waits")
        assert not [one for one in lab.history("waits") if one.what == "Starting"]


def _closed(lab: Lab) -> bool:
    return "is not what was written" in lab.log.read_text()


def test_a_gang_that_waits_is_tried_on_one_slot_and_its_mistake_is_met_there() -> None:
    """Its owner's mistake costs one slot for a moment; one that only a gang can make does not."""
    with a_lab(slots=4, agent=AGENT, trial_minutes=0.05) as lab:
        lab.start()
        lab.submit("holds", "sleep 1000", gpus=2, grace="1s")
        lab.wait_for("holds", "Running")
        submit(lab, "broken", "import nothing_of_that_name", gpus=4)
        lab.wait_for("broken", "Failed")
        assert lab.entry("broken").epoch == 0, "no gang of it ever began"
        assert "seen on one GPU" in lab.entry("broken").message
        assert lab.entry("broken.trial").state.name == "FAILED"
        needs = "import os\nassert os.environ['WORLD_SIZE'] == '4', os.environ.get('WEFT_TRIAL')"
        submit(lab, "wide", needs, gpus=4, nproc_per_node="gpu")
        until(lab, "wide.trial", "Succeeded")
        submit(lab, "long", "import time; time.sleep(1000)", gpus=4)
        until(lab, "long.trial", "Running")
        until(lab, "long.trial", "Succeeded")
        assert [lab.state(name) for name in ("wide", "long")] == ["Queued", "Queued"]
        lab.client.cancel("long")
        lab.client.cancel("holds")
        lab.wait_for("wide", "Succeeded")


def until(lab: Lab, name: str, state: str) -> None:
    """Of a job that nobody submitted, and that is not there at first."""
    wait_until(lambda: lab.states().get(name) == state, f"{name} to be {state}", lab.log)


def test_a_trial_ends_when_its_gang_begins_and_with_the_daemon_that_knows_of_it() -> None:
    with a_lab(slots=4, agent=AGENT, trial_minutes=10.0) as lab:
        lab.start()
        lab.submit("holds", "sleep 1000", gpus=2, grace="1s")
        lab.wait_for("holds", "Running")
        submit(lab, "gang", "import time; time.sleep(2)", gpus=4)
        until(lab, "gang.trial", "Running")
        lab.kill()
        lab.start()
        until(lab, "gang.trial", "Cancelled")
        lab.client.cancel("holds")
        lab.wait_for("gang", "Succeeded")
        submit(lab, "holds-again", "import time; time.sleep(4)", gpus=2)
        submit(lab, "next", "import time; time.sleep(2)", gpus=3)
        lab.wait_for("next", "Succeeded")
        assert lab.states().get("next.trial") in (None, "Cancelled", "Succeeded")
