"""The lowest layer of our images: as much of Debian as a Python process needs, and busybox.

The interpreter and its libraries lie in the image where they lie on this machine, so whatever was
built into them stays true, be it Debian's own Python or another.
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.testcluster.binaries import find
from tools.testcluster.layers import LayerWriter, merged, merged_links

_PASSWD: Final = """\
root:x:0:0:root:/root:/bin/sh
weft:x:1000:1000:weft:/home/weft:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/sh
"""
_GROUP: Final = "root:x:0:\nweft:x:1000:\nnogroup:x:65534:\n"
_LEFT_OUT: Final = {
    *("test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip"),
    *("site-packages", "dist-packages"),
}


def interpreter() -> Path:
    """The executable behind the environment that runs this."""
    return Path(sys.executable).resolve()


def write_busybox(layer: LayerWriter) -> None:
    """A root that can be entered, and the commands of a shell."""
    merged_links(layer)
    for name in ("dev", "proc", "sys", "etc", "run", "root", "home/weft", "var"):
        layer.folder(name)
    for name in ("tmp", "var/tmp"):
        layer.folder(name, 0o1777)
    layer.text("etc/passwd", _PASSWD)
    layer.text("etc/group", _GROUP)
    layer.text("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")
    busybox = find("busybox")
    layer.file("usr/bin/busybox", busybox)
    layer.system_libraries([busybox])  # none, if it is busybox-static's
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True)
    for applet in applets.stdout.split():
        if applet != "busybox":
            layer.link(f"usr/bin/{applet}", "busybox")


def write_python(layer: LayerWriter) -> None:
    """The interpreter with its standard library, compiled as it was found."""
    program = interpreter()
    libraries = sorted(_standard_library())
    shared = _shared_library()
    for path in (program, *shared, *libraries):
        layer.file(merged(str(path)).lstrip("/"), path)
    layer.system_libraries(
        (program, *shared, *(path for path in libraries if path.suffix == ".so"))
    )


def _standard_library() -> Iterator[Path]:
    """Both halves of it, which lie in one folder as a rule."""
    for folder in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        # An environment's own folder holds no standard library.
        root = Path(folder.replace(sys.prefix, sys.base_prefix))
        for parent, folders, files in os.walk(root):
            folders[:] = [each for each in folders if not _is_left_out(each)]
            paths = (Path(parent, each) for each in files if not _is_left_out(each))
            yield from (path for path in paths if path.is_file())  # a link may lead nowhere


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT or name.startswith("config-") or name.endswith(".a") or ".opt-" in name


def _shared_library() -> list[Path]:
    """The interpreter may be a small program before a large library."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    path = Path(sysconfig.get_config_var("LIBDIR") or "", name)
    return [path] if name.startswith("lib") and ".so" in name and path.is_file() else []
