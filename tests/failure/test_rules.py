"""Rules as data: each names its examples, tells benign lines from others, and has bounded work."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.failure.counted import steps_of
from weft.failure.classes import FailureClass, NodeAction, Retry
from weft.failure.diagnosis import Ranks, diagnose
from weft.failure.lines import Line, Stream, lines_of, plain, unranked
from weft.failure.pattern import MOST_STEPS, Pattern
from weft.failure.rule import Role, Rule
from weft.failure.rulebook import rule_of, shipped
from weft.model.errors import SpecError
from weft.model.ids import NodeId

LINES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("lines.toml").read_text())


def test_every_rule_names_its_own_examples() -> None:
    shipped().check()


def test_every_class_has_a_rule_and_every_rule_a_sentence() -> None:
    assert {rule.kind for rule in shipped().rules} == set(FailureClass)
    for rule in shipped().rules:
        assert (
            rule.says[0].islower()
            or rule.says[:2].isupper()
            or rule.says.startswith(("GPU", "MPI", "HDFS"))
        ), rule.name
        assert not rule.says.endswith("."), rule.name
        assert rule.counsel and rule.cure in Retry


@pytest.mark.parametrize("text", LINES["benign"])
def test_no_rule_sees_a_cause_in_a_benign_line(text: str) -> None:
    for line in lines_of(text, Line("")):
        found = shipped().match(line)
        assert found is None or found.role is Role.HINT, found


@pytest.mark.parametrize("log", LINES["merged"], ids=lambda log: log["what"].replace(" ", "_"))
@pytest.mark.parametrize("backwards", [False, True])
def test_of_many_lines_the_cause_decides(log: dict[str, Any], *, backwards: bool) -> None:
    """In any order where times are told: the merge of logs is never quite right."""
    lines = [
        Line(
            unranked(plain(text))[0],
            Stream(stream),
            at if at >= 0 else None,
            NodeId(f"node-{rank}"),
            rank,
        )
        for stream, rank, at, text in log["lines"]
    ]
    if backwards and all(line.at_seconds is not None for line in lines):
        lines.reverse()
    found = diagnose(lines, shipped())
    assert found.rule == log["rule"]
    assert found.line in {line.text for line in lines}
    if "rank" in log:
        assert found.rank == log["rank"]
    if "node" in log:
        assert found.node == log["node"]


COUNTED_CHARS = 60
CHARS = 1_000  # of a line for which steps are counted: a `^` fits at one of so many places
HOSTILE = {
    "letters": "a" * 10_000,
    "digits": "1" * 10_000,
    "spaces": " " * 10_000,
    "words": "Error " * 1_700,
    "brackets": "(" * 5_000 + ")" * 5_000,
    "colons": ": " * 5_000,
    "paths": "/a" * 5_000,
    "dots": "a." * 5_000,
    "quotes": "'\"`" * 3_300,
    "zeros": "\0" * 10_000,
    "combining": "e\u0301" * 5_000,
    "surrogates": "\ud800" * 10_000,
    "capital dots": "İ" * 10_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_lines_cost_no_pattern_more_steps_than_counted(text: str) -> None:
    for rule in shipped().rules:
        for one in rule.patterns:
            _tried(one, plain(text))


def test_lines_made_of_a_patterns_own_words_cost_it_no_more() -> None:
    for rule in shipped().rules:
        for one in rule.patterns:
            for word in one.words:
                _tried(one, plain((word + " ") * (10_000 // (len(word) + 1))))


def _tried(one: Pattern, line: str) -> None:
    """Searched by `re` to the end, and counted on the beginning, because counting is slow."""
    one.compiled.search(line)
    begin = line[:COUNTED_CHARS]
    found, steps = steps_of(one.text, begin)
    assert found == bool(one.compiled.search(begin)), (one.text, begin)
    assert steps <= 2 * one.steps * CHARS, (one.text, begin)


def test_no_pattern_of_our_own_is_near_the_bound_of_steps() -> None:
    assert all(one.steps <= MOST_STEPS for rule in shipped().rules for one in rule.patterns)


@pytest.mark.parametrize("rule", shipped().rules, ids=lambda rule: rule.name)
def test_a_program_can_only_make_a_node_suspect(rule: Rule) -> None:
    assert rule.node_action(Stream.APP) <= NodeAction.SUSPECT


def test_known_lines_of_other_systems_are_named(traces: Path) -> None:
    """A catalogue of signatures that may lie beside the traces; streams go by other names there."""
    file = traces.parent / "notes" / "failure_signatures.json"
    streams = {"app": Stream.APP, "kernel": Stream.KERNEL, "sched": Stream.PLATFORM}
    for one in json.loads(file.read_text()) if file.exists() else []:
        for sample in one["samples"]:
            line = Line(unranked(plain(sample))[0], streams[one["stream"]])
            found = shipped().match(line)
            assert found is not None and found.name == one["id"], sample


# --- rules of one's own ---------------------------------------------------------------------------

OWN = {
    "name": "our_store",
    "says": "our store is down",
    "kind": "service",
    "service": "store",
    "patterns": ["OurStore: quorum lost"],
    "examples": ["OurStore: quorum lost at 7"],
}


def test_a_rule_of_ones_own_goes_before_those_of_weft() -> None:
    own = {**OWN, "patterns": ["CUDA out of memory"], "examples": ["CUDA out of memory"]}
    book = shipped().with_rules([rule_of({**own, "name": "mine"})])
    line = Line("CUDA out of memory. Tried to allocate 2 GiB")
    found = book.match(line)
    assert found is not None and found.name == "mine"
    assert diagnose([line], book).service == "store"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"examples": ["something else"]}, "does not fit"),
        ({"examples": []}, "lacks"),
        ({"patterns": []}, "lacks"),
        ({"service": ""}, "does not name the service"),
        ({"name": "two words"}, "no usable name"),
        ({"name": "cuda_oom"}, "a built-in rule is called"),
        ({"kind": "preempted"}, "cannot say that it was preempted"),
        ({"patterns": [f"{c}.{{0,190}}OurStore: quorum lost" for c in "abcdefghij"]}, "steps"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_a_hint(change: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told) as raised:
        shipped().with_rules([rule_of({**OWN, **change})])
    assert raised.value.hint


def test_two_rules_of_ones_own_may_not_take_each_others_examples() -> None:
    wide = rule_of({**OWN, "name": "wide", "patterns": ["OurStore"], "examples": ["OurStore"]})
    with pytest.raises(SpecError, match="named wide by another rule"):
        shipped().with_rules([wide, rule_of(OWN)])
    shipped().with_rules([rule_of(OWN), wide])


# --- what many lines say --------------------------------------------------------------------------


def test_a_block_of_lines_is_named_as_each_line_is() -> None:
    texts = [text for rule in shipped().rules for text in (*rule.examples, "step 3 loss 2.1")]
    for stream in Stream:
        lines = [Line(plain(text), stream) for text in [*texts, *LINES["benign"], "ß" * 50]]
        alone = {n: rule for n, line in enumerate(lines) if (rule := shipped().match(line))}
        assert dict(shipped().matches(lines)) == alone
        assert list(dict(shipped().matches(lines * 9))) == [
            n + turn * len(lines) for turn in range(9) for n in alone
        ]


def test_the_rank_that_lags_is_blamed_where_only_others_speak() -> None:
    lines = [
        Line("Watchdog caught collective operation timeout: WorkNCCL(1)", rank=r) for r in (0, 1)
    ]
    nodes = {rank: NodeId(f"n{rank}") for rank in range(3)}
    assert diagnose(lines, shipped(), Ranks(nodes, {})).node is None
    behind = diagnose(lines, shipped(), Ranks(nodes, {0: 9, 1: 9, 2: 8}))
    assert (behind.node, behind.node_action) == ("n2", NodeAction.SUSPECT)
    assert diagnose(lines, shipped(), Ranks(nodes, {0: 9, 1: 8, 2: 8})).node is None


def test_who_reports_a_hang_is_not_the_one_to_blame() -> None:
    nodes = {rank: NodeId(f"n{rank}") for rank in range(3)}
    line = Line("hang: no progress for 900 s (limit 600)", Stream.PLATFORM, None, nodes[0], 0)
    assert diagnose([line], shipped(), Ranks(nodes, {})).node is None
    assert diagnose([line], shipped(), Ranks(nodes, {0: 9, 1: 9, 2: 8})).node == "n2"


def test_two_processes_that_crash_without_a_word_blame_no_node() -> None:
    ends = [
        Line("exit code 139 (SIGSEGV)", Stream.PLATFORM, None, NodeId(f"n{rank}"), rank)
        for rank in range(2)
    ]
    assert diagnose(ends[:1], shipped()).node == "n0"
    assert diagnose(ends, shipped()).node is None


def test_two_ranks_with_a_cause_each_blame_no_node() -> None:
    nodes = {rank: NodeId(f"n{rank}") for rank in range(2)}
    ecc = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    one = diagnose([Line(ecc, rank=1)], shipped(), Ranks(nodes, {}))
    assert (one.node, one.node_action) == ("n1", NodeAction.SUSPECT)
    assert diagnose([Line(ecc, rank=r) for r in (0, 1)], shipped(), Ranks(nodes, {})).node is None


def test_nothing_said_is_unknown_and_the_last_line_is_kept() -> None:
    found = diagnose([Line("step 1"), Line("good bye")], shipped())
    assert (found.kind, found.rule, found.line) == (
        FailureClass.UNKNOWN,
        "no_signature",
        "good bye",
    )
    assert diagnose([], shipped()).failure.evidence == FailureClass.UNKNOWN.meaning
