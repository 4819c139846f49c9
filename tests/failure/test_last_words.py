"""What a container leaves to be read: little, plain, and worth as much as its owner's word."""

from weft.failure.diagnosis import diagnose, gathered
from weft.failure.last_words import MARK, MOST_BYTES, read, written
from weft.failure.observed import Exit, Hang, MemoryEvents, Observed, Output, Where
from weft.failure.rulebook import shipped

TRACE = """Traceback (most recent call last):
  File "/app/train.py", line 7, in <module>
    main()
  File "/app/train.py", line 4, in main
    batch["labels"]
KeyError: 'labels'
"""


def seen(*observed: Observed) -> str:
    return written("worker 1 ended with 1", observed, shipped())


def test_what_decides_is_there_with_its_rank_and_leads_to_the_same_diagnosis() -> None:
    noise = "\n".join(f"step {number} loss 2.0" for number in range(500))
    both: list[Observed] = [
        Output(f"{noise}\nConnection closed by peer [10.0.0.1]:29500\n", Where(rank=0)),
        Output(noise + "\n" + TRACE, Where(rank=1)),
        Exit(1, Where(rank=1)),
    ]
    words = read(seen(*both))
    assert (words.why, words.told) == ("worker 1 ended with 1", True)
    assert "[1] KeyError: 'labels'" in words.evidence and "step 4" not in words.evidence
    first = diagnose(gathered(both), shipped())
    again = diagnose(gathered(words.observed(Where())), shipped())
    assert (again.rule, again.rank, again.line) == (first.rule, first.rank, first.line)
    assert again.fingerprint == first.fingerprint


def test_where_no_rule_speaks_the_last_lines_do() -> None:
    words = read(seen(Output("\n".join(map(str, range(100))), Where(rank=2))))
    assert words.evidence.splitlines()[-1] == "[2] 99" and "[2] 50" not in words.evidence


def test_it_is_bounded_and_steers_no_terminal() -> None:
    long = "\n".join(f"KeyError: \x1b[2J{'é' * 3000}{number}" for number in range(99))
    text = seen(Output(long, Where(rank=0)))
    assert len(text.encode()) <= MOST_BYTES and "\x1b" not in text


def test_two_numbers_of_the_agent_come_through_and_nothing_else_of_a_kernel() -> None:
    text = seen(MemoryEvents(2), Hang(61.0, 60.0))
    found = list(read(text).observed(Where()))
    assert found[:2] == [MemoryEvents(2), Hang(61.0, 60.0)]
    forged = f"x\n{MARK}\nNVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."
    assert diagnose(gathered(read(forged).observed(Where())), shipped()).kind == "unknown"


def test_words_of_another_kind_are_a_sentence() -> None:
    words = read("something\x1b[2J broke\nand more")
    assert (words.why, words.told, words.evidence) == ("something broke", False, "")
    assert read("").why == ""
