"""Records, their places in a file, and the boxes that make up a tensor."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.layout import (
    ALIGNMENT,
    ITEM_BYTES,
    TensorRecord,
    check_name,
    check_record,
    check_together,
    check_whole,
    common_part,
    from_json,
    pack,
    packed_bytes,
    parted,
    to_json,
    whole,
)

SHAPES = st.lists(st.integers(0, 5), max_size=3).map(tuple)
RECORDS = st.builds(whole, st.just("model/w"), st.sampled_from(sorted(ITEM_BYTES)), SHAPES)


def cut(shape: tuple[int, ...], dim: int, parts: int, name: str = "model/w") -> list[TensorRecord]:
    """As torch cuts: ceil-sized parts, the last ones smaller or empty."""
    size, records = -(-shape[dim] // parts), []
    for place in range(parts):
        start = min(shape[dim], size * place)
        offsets = tuple(start if at == dim else 0 for at in range(len(shape)))
        length = min(size, shape[dim] - start)
        sizes = tuple(length if at == dim else full for at, full in enumerate(shape))
        records.append(TensorRecord(name, "float32", shape, offsets, sizes))
    return records


@given(st.lists(RECORDS, max_size=6))
def test_pieces_are_aligned_and_never_overlap(records: list[TensorRecord]) -> None:
    pieces = pack(records)
    assert all(piece.at % ALIGNMENT == 0 for piece in pieces)
    for one, following in itertools.pairwise(pieces):
        assert one.end <= following.at < one.end + ALIGNMENT
    assert packed_bytes(pieces) % ALIGNMENT == 0
    assert all(piece.end <= packed_bytes(pieces) for piece in pieces)


def test_records_survive_json() -> None:
    pieces = pack([*cut((7, 5), 0, 2, "model/a")[:1], whole("optimizer/a/step", "float32", ())])
    assert from_json(to_json(pieces), "here") == pieces


def test_a_worker_names_a_tensor_once() -> None:
    twice = pack([whole("model/w", "float32", (3,))] * 2)
    with pytest.raises(Damaged, match="named twice"):
        from_json(to_json(twice), "here")


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(0, 1), st.integers(1, 5), st.integers(1, 5)
)
def test_boxes_of_two_plans_meet_exactly_once_at_each_element(
    rows: int, columns: int, dim: int, before: int, after: int
) -> None:
    shape = (rows, columns)
    held, wanted = cut(shape, dim, before), cut(shape, 0, after)
    check_whole(held)
    met = 0
    for have in held:
        for want in wanted:
            part = common_part(have, want)
            if part is not None:
                of_have, of_want = part
                assert [s.stop - s.start for s in of_have] == [s.stop - s.start for s in of_want]
                met += (of_have[0].stop - of_have[0].start) * (of_have[1].stop - of_have[1].start)
    assert met == rows * columns


def test_several_workers_may_hold_the_same_box() -> None:
    check_whole([whole("model/b", "float32", (3,))] * 4)


def test_a_grid_is_whole() -> None:
    quarters = [
        TensorRecord("model/w", "float32", (4, 6), (row, column), (2, 3))
        for row in (0, 2)
        for column in (0, 3)
    ]
    check_whole(quarters)
    with pytest.raises(Damaged, match="do not make up"):
        check_whole(quarters[:3])


@pytest.mark.parametrize(
    "records",
    [
        cut((6, 2), 0, 3)[:2],
        [*cut((6, 2), 0, 2), *cut((6, 2), 0, 3)],
        [*cut((6, 2), 0, 2), whole("model/w", "float32", (6, 2))],
        [*cut((6, 2), 0, 2)[:1], *cut((8, 2), 0, 2)[1:]],
        [whole("model/w", "float32", (2,)), whole("model/w", "float64", (2,))],
        [TensorRecord("model/w", "float32", (4,), (4,), (0,))],
        [TensorRecord("model/w", "float32", (4,), (at,), (2,)) for at in (0, 1)],
        [TensorRecord("model/w", "float32", (4,), (at,), (2,)) for at in (1, 2)],
    ],
    ids=[
        "hole",
        "overlap",
        "part and whole",
        "two shapes",
        "two types",
        "nothing",
        "shifted",
        "late",
    ],
)
def test_parts_that_do_not_make_up_a_tensor_are_refused(records: list[TensorRecord]) -> None:
    with pytest.raises(Damaged):
        check_whole(records)


@pytest.mark.parametrize(
    "record",
    [
        TensorRecord("model/w", "float33", (1,), (0,), (1,)),
        TensorRecord("model/w", "float32", (-1,), (0,), (1,)),
        TensorRecord("model/w", "float32", (4,), (-1,), (2,)),
        TensorRecord("model/w", "float32", (4,), (0,), (-4,)),
        TensorRecord("model/w", "float32", (4,), (3,), (2,)),
        TensorRecord("model/w", "float32", (4,), (0, 0), (4,)),
        TensorRecord("model/w", "float32", (2**40, 2**40), (0, 0), (1, 1)),
        TensorRecord("model/w", "float32", (1,) * 33, (0,) * 33, (1,) * 33),
    ],
)
def test_what_no_worker_can_hold_is_refused(record: TensorRecord) -> None:
    with pytest.raises(Damaged):
        check_record(record)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "w",
        "model",
        "model/",
        "/etc/passwd",
        "model/../../etc/passwd",
        "model/./w",
        "model//w",
        "model/w\x00",
        "model/w\n",
        "model/\u202ew",
        "model/\ud800",
        "model\\w",
        "model/..\\w",
        "other/w",
        "model/" + "x" * 1024,
    ],
)
def test_names_that_look_like_a_trick_are_refused(name: str) -> None:
    with pytest.raises(Damaged):
        check_name(name)


@given(
    shapes=st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=8),
    parts=st.integers(1, 5),
)
def test_state_is_shared_out_by_rows_and_makes_up_the_whole(
    shapes: list[list[int]], parts: int
) -> None:
    """Each writer has an equal part of the bytes, to the longest row, and what no row can cut."""
    records = [whole(f"model/{number}", "float32", shape) for number, shape in enumerate(shapes)]
    shared = [parted(records, part, parts) for part in range(parts)]
    check_together([pack(each) for each in shared], staged=False)
    cut = [record for record in records if record.sizes and record.elements]
    row = max((record.bytes // record.sizes[0] for record in cut), default=0)
    single = sum(record.bytes for record in records if not record.sizes)
    for each in shared:
        held = sum(record.bytes for record in each)
        assert held <= sum(record.bytes for record in records) / parts + row + single
