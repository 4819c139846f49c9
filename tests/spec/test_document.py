"""Text to plain values: what YAML and JSON mean here, and where the reader stops."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.work import calls_of
from weft.model.errors import SpecError
from weft.spec.document import MAX_BYTES, MAX_DEPTH, MAX_NODES, parse_document

MAX_CALLS = 1_000  # to refuse a text of any length, or to read one that has few nodes


def parsed(text: str | bytes) -> object:
    return parse_document(text, name="x").value


def refusal(text: str | bytes) -> str:
    with pytest.raises(SpecError) as caught:
        parsed(text)
    assert caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("8", 8),
        ("-8", -8),
        ("0.5", 0.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("on", "on"),
        ("010", "010"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("4..16", "4..16"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("9" * 40, "9" * 40),
        ('"8"', "8"),
        ("'true'", "true"),
        ("!!str 8", "8"),
        ("<<", "<<"),
    ],
)
def test_words(word: str, meant: object) -> None:
    assert parsed(f"a: {word}") == {"a": meant}


def test_a_script_keeps_its_lines() -> None:
    assert parsed("run: |\n  echo $(date)\n\n  echo done\n") == {
        "run": "echo $(date)\n\necho done\n"
    }


def test_lines_are_known() -> None:
    document = parse_document("run: x\nresources:\n  gpus: 4\nvolumes:\n- claim: a\n", name="x")
    assert document.lines == {
        ("run",): 1,
        ("resources",): 2,
        ("resources", "gpus"): 3,
        ("volumes",): 4,
        ("volumes", 0, "claim"): 5,
    }


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert parsed("\ufeffrun: x") == {"run": "x"}
    assert parsed(b"\xef\xbb\xbfrun: x") == {"run": "x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run: &a x", "anchors and aliases"),
        ("run: *a", "anchors and aliases"),
        ("run: !!python/object:os.system x", "tags"),
        ("run: !include x", "tags"),
        ("run: x\nrun: y", "line 2: field 'run' is given twice"),
        ('{"run": "x", "run": "y"}', "given twice"),
        ("? [a, b]\n: c", "not plain text"),
        ("run: x\n---\nrun: y", "more than one document"),
        ("a: [", "is not YAML"),
        ("\tx: 1", "is not YAML"),
        ("run: \x00", "does not allow"),
        (b"\xff\xfe", "is not UTF-8"),
        ("\ud800", "is not UTF-8"),
        ("#" * (MAX_BYTES + 1), f"{MAX_BYTES + 1} bytes"),
        ("- a\n" * (MAX_NODES + 1), f"more than {MAX_NODES} values"),
        ("[" * (MAX_DEPTH + 2), "nested deeper"),
        ('{"a":' * 5000, "nested deeper"),
        ('{"a":{}}'.join(["[", *[","] * 2000, "]"]), "more than"),
        ("[" + '{"a":1},' * 1500 + "1]", "more than"),
        ('{"b":[' + '{"a":1},' * 1500 + "1]}", "more than"),
    ],
)
def test_what_is_not_read(text: str | bytes, said: str) -> None:
    assert said in refusal(text)


def test_json_is_read_as_json() -> None:
    text = json.dumps({"run": "a\u2028b \U0001f600", "env": {"A": "\\/"}})
    assert parsed(text) == json.loads(text)
    assert parsed('{"a": NaN}') == {"a": "NaN"}
    assert parsed('{"a": %s}' % ("9" * 5000)) == {"a": "9" * 5000}
    assert "is not YAML" in refusal('{"a": "\\ud800"}')
    assert parsed("{a: 1, b: [x]}") == {"a": 1, "b": ["x"]}


LAUGHS = "a: &a [x]\n" + "".join(f"k{n}: &b{n} [*a,*a,*a,*a,*a,*a]\n" for n in range(9))


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        "[" * MAX_BYTES,
        "{a: " * (MAX_BYTES // 4),
        "- " * (MAX_BYTES // 2),
        "? " * (MAX_BYTES // 2),
        '"' + "a" * (MAX_BYTES - 1),
        "run: |\n" + "  echo hello\n" * (MAX_BYTES // 13 - 1),
        "# c\n" * (MAX_BYTES // 4),
        " " * MAX_BYTES,
        "{" + '"a":1,' * (MAX_BYTES // 6 - 2) + '"a":1}',
        '{"run":[' + "0," * (MAX_BYTES // 2 - 8) + "0]}",
        '{"a":' * (MAX_BYTES // 5),
        "&a " * (MAX_BYTES // 3),
        "'" + "''" * (MAX_BYTES // 2 - 1) + "'",
        "a: " + "x\n  " * (MAX_BYTES // 4 - 1),
    ],
    ids=range(15),
)
def test_no_text_is_much_work(text: str) -> None:
    assert len(text) <= MAX_BYTES

    def read() -> None:
        with contextlib.suppress(SpecError):
            parsed(text)

    assert calls_of(read) < MAX_CALLS


@given(st.binary(max_size=200) | st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str | bytes) -> None:
    try:
        parsed(text)
    except SpecError as error:
        assert error.hint
