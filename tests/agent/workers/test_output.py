"""What workers print comes out of the agent too, line by line, and into a file for each."""

import os
from pathlib import Path

from weft.agent.workers.output import MOST_LINE_BYTES, Copying, Echo


def copied(folder: Path, *blocks: bytes, ranks: bool = True) -> tuple[bytes, bytes]:
    """What the file and the agent's output hold when a worker has printed these."""
    reading, writing = os.pipe()
    out = folder / "out"
    file = os.open(out, os.O_WRONLY | os.O_CREAT)
    copying = Copying(os.fdopen(reading, "rb"), folder / "log", Echo(file, ranks=ranks), rank=3)
    for block in blocks:
        os.write(writing, block)
    os.close(writing)
    copying.finish()
    os.close(file)
    return (folder / "log").read_bytes(), out.read_bytes()


def test_each_line_is_marked_and_the_file_is_not(tmp_path: Path) -> None:
    kept, shown = copied(tmp_path, b"one\ntw", b"o\n\nend")
    assert kept == b"one\ntwo\n\nend"
    assert shown == b"[3] one\n[3] two\n[3] \n[3] end\n"


def test_one_worker_needs_no_mark(tmp_path: Path) -> None:
    assert copied(tmp_path, b"one\n", ranks=False)[1] == b"one\n"


def test_a_line_without_an_end_comes_out_all_the_same(tmp_path: Path) -> None:
    bar = b"\r50 %" * MOST_LINE_BYTES
    kept, shown = copied(tmp_path, bar[:30_000], bar[30_000:60_000])
    assert kept == bar[:60_000]
    assert len(shown.replace(b"[3] ", b"").replace(b"\n", b"")) == 60_000


def test_an_output_that_is_closed_hurts_nobody(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    Echo(writing, ranks=False).write(0, [b"nobody hears this"])
    os.close(writing)
