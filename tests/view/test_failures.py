"""Which causes cost the most, and what a record says that nobody can read."""

from datetime import UTC, datetime

from weft.failure.diagnosis import Diagnosis, diagnose
from weft.failure.lines import Line
from weft.failure.rulebook import shipped
from weft.failure.written import read, written
from weft.view.diagnosed import failure_line, told_failure
from weft.view.failures import FailureLine, by_kind, by_owner, by_queue, pareto
from weft.view.wire import from_json, to_json

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
FULL = "OSError: [Errno 28] No space left on device"


def found(text: str) -> Diagnosis:
    return diagnose([Line(text, rank=3)], shipped())


def line(text: str, hours: float, job: str = "a", owner: str = "anna") -> FailureLine:
    return failure_line(
        found(text),
        namespace=owner,
        job=job,
        queue=f"{owner}s",
        epoch=2,
        at=NOON,
        did="given up",
        lost_gpu_seconds=hours * 3600,
    )


def test_the_dearest_cause_comes_first_and_shares_add_up() -> None:
    lines = [
        line("KeyError: 'x'", 1.0),
        line("KeyError: 'y'", 1.0, "b", "ben"),
        line(FULL, 6.0, "c"),
        line("strange", 0.0, "d"),
    ]
    first, second, third = pareto(lines)
    assert (first.name, first.lost_gpu_hours, first.share) == ("node: disk_full", 6.0, 0.75)
    assert (second.name, second.failures, second.jobs, second.owners, second.so_far) == (
        *("user: python_semantic", 2, 2, 2),
        1.0,
    )
    assert (third.name, third.share) == ("unknown: no_signature", 0.0)
    assert [one.name for one in pareto(lines, by_kind)] == ["node", "user", "unknown"]
    assert [(one.name, one.failures) for one in pareto(lines, by_owner)] == [
        ("anna", 3),
        ("ben", 1),
    ]
    assert [one.name for one in pareto(lines, by_queue)] == ["annas", "bens"]
    assert pareto([]) == () and pareto([line("strange", 0.0)])[0].so_far == 0.0


def test_a_line_says_whose_fault_it_is_and_where_to_look() -> None:
    one = line("KeyError: 'x'", 1.0)
    assert (one.fault, one.rank) == ("owner", 3)
    assert one.log == "weft logs a --epoch 2 --rank 3"
    assert from_json(FailureLine, to_json(one)) == one


def test_a_diagnosis_on_record_is_read_again_and_anything_else_is_nothing() -> None:
    for text in ("KeyError: 'x'", FULL, "strange", "botocore.exceptions.EndpointConnectionError"):
        assert read(written(found(text))) == found(text)
    whole = written(found(FULL))
    for broken in (None, 7, {}, whole | {"kind": "new"}, whole | {"node_action": "burn"}):
        assert read(broken) is None
    assert read(whole | {"line": "\x1b[2Jx"}).line == "x"  # type: ignore[union-attr]
    assert told_failure({"kind": "user"}, job="a", epoch=1) is None
