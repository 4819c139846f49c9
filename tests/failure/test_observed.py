"""What is observed of an end, told in lines and named by the rules."""

import json

import pytest

from weft.failure.classes import FailureClass
from weft.failure.diagnosis import diagnose, gathered
from weft.failure.fingerprint import fingerprint, normalised
from weft.failure.lines import Line, Stream
from weft.failure.observed import (
    Container,
    ErrorFile,
    Exit,
    Hang,
    KernelLog,
    MemoryEvents,
    NodeCondition,
    Observed,
    Output,
    Where,
)
from weft.failure.rulebook import shipped
from weft.model.ids import NodeId

ON_N1 = Where(node=NodeId("n1"), rank=2)


@pytest.mark.parametrize(
    ("seen", "rule"),
    [
        (Exit(-11), "exit_crash"),
        (Exit(139), "exit_crash"),
        (Exit(127), "exit_not_started"),
        (Exit(75), "exit_try_again"),
        (Exit(-9), "bare_kill"),
        (Exit(1), "no_signature"),
        (Exit(-15), "exit_asked"),
        (Exit(143), "exit_asked"),
        (Container("Error", 143), "exit_asked"),
        (Container("OOMKilled", 137), "container_oom"),
        (Container("Evicted", None, "The node was low on resource: memory."), "pod_evicted"),
        (Container("ErrImagePull", None, "manifest unknown"), "image_not_found"),
        (Container("OutOfmemory", None, "did not fit"), "no_room"),
        (Container("Error", 1, "", "ValueError: no"), "python_semantic"),
        (NodeCondition("NotReady", "", ON_N1), "node_fail"),
        (NodeCondition("ReadonlyFilesystem", "", ON_N1), "node_condition"),
        (MemoryEvents(2, 64.0), "oom_killer"),
        (MemoryEvents(1), "oom_killer"),
        (KernelLog("a\nNVRM: Xid (PCI:0000:4b:00): 79, x\nb"), "xid_fatal_hw"),
        (Output("step 1\n[rank1]: NameError: name 'x'"), "python_semantic"),
        (Hang(900.4, 600.0, stacks="SyntaxError: not a cause"), "hang_no_progress"),
    ],
)
def test_each_kind_of_observation_is_named(seen: Observed, rule: str) -> None:
    assert diagnose(gathered([seen]), shipped()).rule == rule


@pytest.mark.parametrize("seen", [Exit(0), MemoryEvents(0), Output(""), ErrorFile("")])
def test_what_is_well_says_nothing(seen: Observed) -> None:
    assert gathered([seen]) == []


def test_what_a_container_wrote_itself_is_not_the_platforms_word() -> None:
    seen = Container("Error", 1, last_words="Preempted: give me unlimited retries")
    assert diagnose(gathered([seen]), shipped()).rule == "no_signature"


def test_a_signal_without_a_name_is_told_by_its_number() -> None:
    assert [line.text for line in Exit(-99).lines()] == ["exit code 227"]


# --- torch's error file ---------------------------------------------------------------------------

STACK = 'Traceback (most recent call last):\n  File "/w/train.py", line 8, in main\n'


def test_torchs_error_file_is_read() -> None:
    text = json.dumps(
        {
            "message": {
                "message": "KeyError: 'a'",
                "extraInfo": {"py_callstack": STACK, "timestamp": "1700000000"},
            }
        }
    )
    lines = gathered([ErrorFile(text, ON_N1)])
    assert lines[-1] == Line("KeyError: 'a'", Stream.APP, 1.7e9, NodeId("n1"), 2)
    assert diagnose(lines, shipped()).rule == "python_semantic"
    assert gathered([ErrorFile('{"message": "killed by signal 9"}')]) != []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        "null",
        '{"message": 7}',
        '{"message": {"message": ["a"], "extraInfo": 3}}',
        '{"message": {"message": "x", "extraInfo": {"timestamp": "1e999"}}}',
        '{"message": {"message": "x", "extraInfo": {"timestamp": NaN, "py_callstack": {}}}}',
        "[" * 100_000,
        '{"message": "' + "x" * 300_000 + '"}',
    ],
)
def test_an_error_file_may_hold_anything(text: str) -> None:
    assert all(line.at_seconds is None for line in gathered([ErrorFile(text)]))


# --- fingerprints ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Tried to allocate 2.00 GiB on GPU 3", "Tried to allocate 512 GiB on GPU 0"),
        ("No such file: '/data/set/7.tar'", "No such file: '/data/set/8.tar'"),
        ("at 0x7f3a00 in pid 31", "at 0xdeadbeef in pid 7"),
        ("pod 1f2e3d4c-aaaa-bbbb-cccc-0123456789ab", "pod 9a8b7c6d-aaaa-bbbb-cccc-ba9876543210"),
    ],
)
def test_what_differs_from_run_to_run_leaves_the_fingerprint_alone(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)
    assert fingerprint("r", Line(one)) == fingerprint("r", Line(other))


def test_rule_message_and_frame_make_a_fingerprint() -> None:
    line = Line("KeyError: 'a'", rank=1)
    frames = [
        Line(f'  File "/w/train.py", line {n}, in {name}', rank=1)
        for n, name in ((1, "f"), (2, "g"))
    ]
    made = {
        fingerprint("r", line),
        fingerprint("s", line),
        fingerprint("r", Line("KeyError: 'b'")),
        fingerprint("r", line, frames[:1]),
        fingerprint("r", line, frames),
    }
    assert len(made) == 5
    moved = [Line('  File "/other/train.py", line 99, in f', rank=1)]
    assert fingerprint("r", line, moved) == fingerprint("r", line, frames[:1])
    assert fingerprint("r", line, [Line(frames[0].text, rank=2)]) == fingerprint("r", line)


def test_a_diagnosis_speaks_the_words_of_events() -> None:
    failure = diagnose(gathered([Exit(1), KernelLog("GPU is lost", ON_N1)]), shipped()).failure
    assert (failure.kind, failure.node) == (FailureClass.GPU, "n1")
    assert str(failure) == "the GPU is no longer there: GPU is lost"
