"""Amounts: what is read, what is refused, and that patterns and readers mean the same."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import SpecError
from weft.spec import quantity
from weft.spec.quantity import (
    MAX_GPUS,
    Range,
    duration_seconds,
    duration_text,
    gpu_range,
    memory_gib,
    memory_text,
)

GIB = 2**30


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0, Range(0, 0)),
        (8, Range(8, 8)),
        ("8", Range(8, 8)),
        ("0", Range(0, 0)),
        ("4..16", Range(4, 16)),
        ("4..4", Range(4, 4)),
        (MAX_GPUS, Range(MAX_GPUS, MAX_GPUS)),
        (f"1..{MAX_GPUS}", Range(1, MAX_GPUS)),
    ],
)
def test_gpus_are_a_number_or_a_range(written: int | str, meant: Range) -> None:
    assert gpu_range(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        -1,
        MAX_GPUS + 1,
        True,
        1.0,
        None,
        [],
        "",
        "4..",
        "..4",
        "0..4",
        "4...8",
        "04",
        "4..08",
        "16..4",
        " 4",
        "4\n",
        "4..8..16",
        "100000",
        "four",
        "٤",
        "4..\n8",
    ],
)
def test_what_is_no_number_of_gpus(written: object) -> None:
    with pytest.raises(SpecError) as caught:
        gpu_range(written)  # type: ignore[arg-type]
    assert caught.value.hint


@given(st.integers(1, MAX_GPUS), st.integers(1, MAX_GPUS))
def test_a_range_is_read_as_it_is_printed(one: int, other: int) -> None:
    width = Range(min(one, other), max(one, other))
    assert gpu_range(str(width)) == width


@pytest.mark.parametrize(
    ("written", "gib"),
    [
        ("64GB", 64e9 / GIB),
        ("64GiB", 64.0),
        ("64Gi", 64.0),
        ("512MiB", 0.5),
        ("500MB", 500e6 / GIB),
        ("1.5TiB", 1536.0),
        ("1Ti", 1024.0),
        ("2TB", 2e12 / GIB),
    ],
)
def test_memory(written: str, gib: float) -> None:
    assert memory_gib(written) == pytest.approx(gib)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "64",
        "64G",
        "64gb",
        "0GB",
        "-1GB",
        "0.5GB",
        "64 GB",
        "64GB..",
        "100000GB",
        "1.GB",
        "1.2345GB",
        "100TB",
        "64GBB",
        "GB",
        "٦GB",
        "64GB\n",
    ],
)
def test_what_is_no_amount_of_memory(written: str) -> None:
    with pytest.raises(SpecError) as caught:
        memory_gib(written)
    assert caught.value.hint


@given(st.floats(0.001, 90_000.0))
def test_memory_is_printed_as_it_is_read(gib: float) -> None:
    again = memory_gib(memory_text(gib))
    assert gib - 1e-6 <= again <= gib + 1 / 512


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("0s", 0), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("7d", 604_800), ("1d1h1m1s", 90_061)],
)
def test_durations(written: str, seconds: int) -> None:
    assert duration_seconds(written) == seconds


@pytest.mark.parametrize(
    "written", ["", "10", "m", "0m", "00s", "-5m", "1.5h", "10 m", "30m1h", "5w", "1h0m", "9m\n"]
)
def test_what_is_no_duration(written: str) -> None:
    with pytest.raises(SpecError) as caught:
        duration_seconds(written)
    assert caught.value.hint


@given(st.integers(0, 900 * 86_400))
def test_a_duration_is_read_as_it_is_printed(seconds: int) -> None:
    assert duration_seconds(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("pattern", "read"),
    [
        (quantity.GPUS_PATTERN, gpu_range),
        (quantity.MEMORY_PATTERN, memory_gib),
        (quantity.DURATION_OR_ZERO_PATTERN, duration_seconds),
    ],
    ids=["gpus", "memory", "duration"],
)
@given(data=st.data())
def test_whatever_a_pattern_lets_through_is_read(
    pattern: str, read: "object", data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(re.compile(pattern.replace("$", r"\Z"), re.ASCII)))
    begins_above_its_end = ".." in text and int(text.split("..")[0]) > int(text.split("..")[1])
    if text and not begins_above_its_end:
        read(text)  # type: ignore[operator]
