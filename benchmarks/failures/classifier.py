"""Classifier: lines that are known, lines that are harmless, lines that mean harm, and speed.

The corpus with Philly's mix is written for the purpose: no labelled log of a real cluster is
public, so its share of unknown ends says that the rules are wide, not how wide they are elsewhere.
"""

import json
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path
from time import process_time
from typing import Any, Final

from benchmarks.failures.philly import Philly, Trial
from benchmarks.row import Row, at_least, at_most, clocked, exactly, told
from weft.failure.classes import FailureClass
from weft.failure.diagnosis import Diagnosis, diagnose
from weft.failure.lines import Line, Stream, lines_of, plain, unranked
from weft.failure.rule import Role
from weft.failure.rulebook import RuleBook, shipped

LINES: Final = Path(__file__).parents[2] / "tests" / "failure" / "lines.toml"
CATALOGUE: Final = "failure_signatures.json"
STREAMS: Final = {"app": Stream.APP, "kernel": Stream.KERNEL, "sched": Stream.PLATFORM}
LOG_MB, SHORT_LOG_MB = 24, 6
TRIALS, SHORT_TRIALS = 10_000, 1_000
LONG_CHARS: Final = 10_000
PROGRESS_SHARE: Final = 0.95
GENERIC: Final = frozenset({"generic_traceback", "bare_kill", "no_signature"})
RIGHT: Final = {
    "cpu_out_of_memory": {FailureClass.MEMORY},
    "incorrect_inputs": {FailureClass.INPUT},
    "semantic_error": {FailureClass.USER},
    "core_dump": {FailureClass.CRASH},
    "invalid_mem_access": {FailureClass.CRASH},
    "model_ckpt_error": {FailureClass.SERVICE, FailureClass.NODE, FailureClass.CHECKPOINT},
    "cuda_failure": {FailureClass.CRASH, FailureClass.GPU},
    "syntax_error": {FailureClass.USER},
    "traceback_from_crash": {FailureClass.UNKNOWN},
    "mpi_error": {FailureClass.START},
    "gpu_out_of_memory": {FailureClass.GPU_MEMORY},
    "mpi_runtime_failure": {
        *(FailureClass.START, FailureClass.PEER, FailureClass.NETWORK, FailureClass.NODE),
    },
    "permission_error": {FailureClass.ACCESS},
    "import_error": {FailureClass.ENVIRONMENT},
    "job_preempted": {FailureClass.PREEMPTED},
    "cuda_init_failed": {FailureClass.GPU},
    "model_diverged": {FailureClass.DIVERGED},
    "cuda_version_mismatch": {FailureClass.ENVIRONMENT},
    "gpu_ecc_error": {FailureClass.GPU},
    "output_node_error": {FailureClass.USER},
    "cannot_load_libs": {FailureClass.ENVIRONMENT},
    "no_signature": {FailureClass.UNKNOWN},
}


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Right answers first, then time."""
    book = shipped()
    yield told("rules", len(book.rules), "rules")
    yield from _answers(book, traces)
    timed = _time(book, SHORT_LOG_MB if short else LOG_MB)
    yield from (clocked(row, short=short) for row in timed)
    yield from _mix(book, traces, SHORT_TRIALS if short else TRIALS)


def _answers(book: RuleBook, traces: Path) -> Iterator[Row]:
    own = [(text, rule.streams, rule.name) for rule in book.rules for text in rule.examples]
    wrong = sum(_named(book, text, s) != name for text, where, name in own for s in where)
    yield exactly(f"examples of the rules named wrongly, of {len(own)}", wrong, "lines", 0)
    catalogue = traces.parent / "notes" / CATALOGUE
    if catalogue.exists():
        known = [
            (text, STREAMS[one["stream"]], one["id"])
            for one in json.loads(catalogue.read_text())
            for text in one["samples"]
        ]
        wrong = sum(_named(book, text, stream) != name for text, stream, name in known)
        yield exactly(f"lines of the catalogue named wrongly, of {len(known)}", wrong, "lines", 0)
    lines: dict[str, Any] = tomllib.loads(LINES.read_text())
    feared = sum(_is_feared(book, text) for text in lines["benign"])
    yield exactly(f"benign lines feared, of {len(lines['benign'])}", feared, "lines", 0)
    merged = lines["merged"]
    wrong = sum(_decided(book, log) != log["rule"] for log in merged)
    yield exactly(f"merged logs decided wrongly, of {len(merged)}", wrong, "logs", 0)


def _named(book: RuleBook, text: str, stream: Stream) -> str | None:
    found = book.match(Line(unranked(plain(text))[0], stream))
    return found.name if found else None


def _is_feared(book: RuleBook, text: str) -> bool:
    found = (book.match(line) for line in lines_of(text, Line("")))
    return any(rule is not None and rule.role is not Role.HINT for rule in found)


def _decided(book: RuleBook, log: dict[str, Any]) -> str:
    lines = [
        Line(unranked(plain(text))[0], Stream(stream), at if at >= 0 else None, rank=rank)
        for stream, rank, at, text in log["lines"]
    ]
    return diagnose(lines, book).rule


# --- time -----------------------------------------------------------------------------------------


def _time(book: RuleBook, megabytes: int) -> Iterator[Row]:
    text = _long_log(megabytes)
    begin = process_time()
    found = diagnose(list(lines_of(text, Line(""))), book)
    spent = process_time() - begin
    assert found.rule == "cuda_oom", found
    speed = len(text) / 1e6 / spent * 60.0
    yield at_least("a log of 95 % progress lines, on one core", speed, "MB/min", 60.0)
    worst, where = max(_costs(book))
    yield at_most(
        "longest that a rule took over a line of 10 kB",
        worst * 1e3,
        "ms",
        50.0,
        peer="rule",
        peer_value=where,
    )


def _long_log(megabytes: int) -> str:
    chance = random.Random(1)
    other = (
        "WARNING retrying read of shard {} after a timeout",
        "INFO evaluation: accuracy 0.{} on the validation set",
        "UserWarning: lr_scheduler.step() was called {} times before optimizer.step()",
        "saved checkpoint at iteration {} in 11.2 s",
        "[W socket.cpp:{}] connection to the store was slow",
    )
    lines: list[str] = []
    size = 0
    while size < megabytes * 1_000_000:
        n = len(lines)
        speed = chance.randrange(99_999)
        line = f"step {n} loss {9.0 / (n + 1):.5f} lr 3.0e-04 tokens/s {speed} mem 61.2 GiB"
        if chance.random() >= PROGRESS_SHARE:
            line = chance.choice(other).format(n)
        lines.append(line)
        size += len(line) + 1
    return "\n".join([*lines, "torch.OutOfMemoryError: CUDA out of memory."])


def _costs(book: RuleBook) -> Iterator[tuple[float, str]]:
    """Every rule on lines that mean harm to all, and on those made of its own words."""
    common = [plain(text) for text in _hostile()]
    for rule in book.rules:
        own = [plain(_repeated(word)) for one in rule.patterns for word in one.words]
        for line in (*common, *own):
            begin = process_time()
            for one in rule.patterns:
                one.compiled.search(line)
            yield process_time() - begin, rule.name


def _hostile() -> list[str]:
    units = (
        *("a", "1", " ", "(", ": ", "Error ", "/a", "a.", "'\"`", "\0", "\x1b[31m", "e\u0301"),
        *("[", "{", "\\", "=", "-", "_", "x y ", "0x", "NVRM: Xid (", "error failed timeout "),
    )
    return [_repeated(unit) for unit in units]


def _repeated(unit: str) -> str:
    return (unit * LONG_CHARS)[:LONG_CHARS]


# --- Philly's mix ---------------------------------------------------------------------------------


def _mix(book: RuleBook, traces: Path, count: int) -> Iterator[Row]:
    chance = random.Random(7)
    trials = Philly(traces).drawn(count, chance)
    found = [(trial, diagnose(trial.log(chance), book)) for trial in trials]
    vague = sum(_is_vague(one) for _, one in found) / count
    yield at_most("unknown and generic ends, Philly's mix", 100.0 * vague, "%", 10.0)
    yield told("… of the class that the reason has", 100.0 * _right(found), "%")


def _is_vague(found: Diagnosis) -> bool:
    return found.rule in GENERIC or found.kind is FailureClass.UNKNOWN


def _right(found: list[tuple[Trial, Diagnosis]]) -> float:
    return sum(one.kind in RIGHT[trial.reason] for trial, one in found) / len(found)
