"""This end of a session: the terminal, lent to a shell elsewhere and given back as it was."""

import os
import select
import signal
import socket
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from weft.cli.shell.frames import DATA, END, NOTICE, SIZE, STATUS, WINDOW, Frames, frame

AT_ONCE: Final = 65_536


def attach(connected: socket.socket) -> int | None:
    """Until the session ends; the shell's status, None where the connection broke."""
    with connected, _raw(), _resizing(connected):
        frames = Frames()
        keyboard = sys.stdin.fileno()
        ends: list[int | socket.socket] = [connected, keyboard]
        while True:
            ready = select.select(ends, [], [])[0]
            if keyboard in ready:
                typed = os.read(keyboard, AT_ONCE)
                if not typed:
                    return None
                connected.sendall(frame(DATA, typed))
            if connected in ready:
                piece = _received(connected)
                if not piece:
                    return None
                for kind, content in frames.feed(piece):
                    if kind == END:
                        return int(STATUS.unpack(content)[0])
                    _show(kind, content)


def _received(connected: socket.socket) -> bytes:
    try:
        return connected.recv(AT_ONCE)
    except OSError:
        return b""


def _show(kind: bytes, content: bytes) -> None:
    if kind == DATA:
        _write(sys.stdout.fileno(), content)
    elif kind == NOTICE:  # a raw terminal does not go back to the line's beginning by itself
        _write(sys.stderr.fileno(), b"\r\nweft: " + content + b"\r\n")


def _write(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


@contextmanager
def _raw() -> Iterator[None]:
    """Every key goes to the shell, Ctrl-C too."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setraw(keyboard, termios.TCSADRAIN)  # what was typed meanwhile is kept
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _resizing(connected: socket.socket) -> Iterator[None]:
    """The shell's terminal is as large as ours, also after it has been resized."""

    def tell(number: int = 0, stack: FrameType | None = None) -> None:
        size = os.get_terminal_size(sys.stdout.fileno())
        connected.sendall(frame(WINDOW, SIZE.pack(size.lines, size.columns)))

    before = signal.signal(signal.SIGWINCH, tell)
    tell()
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
