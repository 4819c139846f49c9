"""Sweeps and names, without any world."""

import pytest

from weft.cli.jobs.asked import line_of
from weft.cli.jobs.run_names import MOST, name_of, names_for
from weft.cli.jobs.sweep import MOST_POINTS, filled, point_words, points_of, refuse_unused
from weft.model.errors import SpecError
from weft.spec.job_file import MAX_NAME


def test_points_are_all_combinations_in_the_order_written() -> None:
    points = points_of(["lr=1e-3,1e-4", "size=16,32"])
    assert [point_words(point) for point in points] == [
        *("lr=1e-3 size=16", "lr=1e-3 size=32"),
        *("lr=1e-4 size=16", "lr=1e-4 size=32"),
    ]
    assert points_of([]) == [{}]
    assert points_of(['opt="a,b", c']) == [{"opt": "a,b"}, {"opt": "c"}]


@pytest.mark.parametrize(
    ("sweeps", "told"),
    [
        (["lr"], "is no sweep"),
        (["=1,2"], "is no sweep"),
        (["l-r=1,2"], "is no sweep"),
        (["lr="], "empty value"),
        (["lr=1,,2"], "empty value"),
        (["lr=1,1"], "a value twice"),
        (["lr=1", "lr=2"], "given twice"),
        (["a=" + ",".join(map(str, range(MOST_POINTS + 1)))], "combinations are more than"),
    ],
)
def test_what_is_no_sweep_is_refused(sweeps: list[str], told: str) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        points_of(sweeps)
    assert caught.value.hint


def test_values_stand_where_their_name_is_and_nowhere_else() -> None:
    assert filled("--lr={lr} {other} {}", {"lr": "1e-3"}) == "--lr=1e-3 {other} {}"
    refuse_unused({"lr": "1"}, ["python", "LR={lr}"])
    with pytest.raises(SpecError, match="nothing uses the values of --sweep lr") as caught:
        refuse_unused({"lr": "1"}, ["python", "--lr", "lr"])
    assert "{lr}" in caught.value.hint


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("python", "train.py", "--lr", "3"), "train"),
        (("/usr/bin/python3.11", "-u", "src/Fine_Tune.py"), "fine-tune"),
        (("python", "-m", "pkg.train"), "pkg-train"),
        (("torchrun", "--nproc_per_node=2", "x.py"), "x"),
        (("uv", "run", "python", "a.py"), "a"),
        (("HF_HOME=/x", "bash", "go.sh"), "go"),
        (("python train.py | tee log",), "train"),
        (("python", "-c", "import time"), "python"),
        (("sh", "-c", "exit 3"), "sh"),
        (("./…",), "job"),
        (("x" * 99,), "x" * 30),
    ],
)
def test_a_job_is_named_after_its_command(command: tuple[str, ...], name: str) -> None:
    assert name_of(command) == name


def test_names_tell_the_point_and_avoid_those_in_use() -> None:
    points = points_of(["lr=1e-3,0.5"])
    assert names_for("a", points, set()) == ["a-lr-1e-3", "a-lr-0-5"]
    assert names_for("a", points, {"a-lr-0-5"}) == ["a-2-lr-1e-3", "a-2-lr-0-5"]
    assert names_for("a", points, None) == ["a-lr-1e-3", "a-lr-0-5"]
    assert names_for("a", [{}], {"a", "a-2"}) == ["a-3"]


def test_names_that_would_be_too_long_or_the_same_are_numbers() -> None:
    assert MOST == MAX_NAME
    assert names_for("a", points_of(["x=A,a"]), set()) == ["a-1", "a-2"]
    long = names_for("n" * 30, points_of([f"x={'v' * 40},w"]), set())
    assert long == ["n" * 30 + "-1", "n" * 30 + "-2"]
    longest = names_for("n" * 50, points_of(["x=" + ",".join(map(str, range(12)))]), None)
    assert max(map(len, longest)) == MOST
    assert len(set(longest)) == 12


def test_words_come_back_as_they_were() -> None:
    assert line_of(("python", "a b.py")) == "python 'a b.py'"
    assert line_of(("echo a | wc",)) == "echo a | wc"
