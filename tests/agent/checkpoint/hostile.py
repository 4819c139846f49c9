"""Manifests that somebody might write who wishes us ill: each must be refused, none may act.

Most are the manifest of a good checkpoint with one thing changed and the seal renewed, so that only
the schema stands in the way.
"""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from weft.agent.checkpoint.document import seal
from weft.agent.checkpoint.layout import ROOTS

Body = dict[str, Any]
Change = Callable[[Body], object]

PICKLE = b"cos\nsystem\n(S'touch canary'\ntR."
YAML = b"!!python/object/apply:os.system ['touch canary']\n"
ZEROS = "0" * 64


def _record(key: str, value: object) -> Change:
    """One field of the first record of the first shard."""
    return lambda body: body["shards"][0]["records"][0].__setitem__(key, value)


def _shard(key: str, value: object) -> Change:
    return lambda body: body["shards"][0].__setitem__(key, value)


def _head(key: str, value: object) -> Change:
    return lambda body: body["head"].__setitem__(key, value)


def _top(key: str, value: object) -> Change:
    return lambda body: body.__setitem__(key, value)


def _with_records(make: Callable[[list[Any]], object]) -> Change:
    def change(body: Body) -> None:
        shard = body["shards"][0]
        shard["records"] = make(shard["records"])

    return change


def _with_shards(make: Callable[[list[Any]], object]) -> Change:
    def change(body: Body) -> None:
        body["shards"] = make(body["shards"])

    return change


CHANGES: dict[str, Change] = {
    # what a tensor is said to be
    "shape beyond memory": _record("shape", [2**60]),
    "shape beyond any count": _record("shape", [2**70]),
    "shape whose product is too large": _record("shape", [2**52, 2**52]),
    "shape larger than its parts": _record("shape", [34]),
    "negative shape": _record("shape", [-33]),
    "shape of fractions": _record("shape", [33.0]),
    "shape of text": _record("shape", ["33"]),
    "shape of truth": _record("shape", [True]),
    "shape of nothing": _record("shape", None),
    "shape of lists": _record("shape", [[33]]),
    "shape with too many dimensions": _record("shape", [1] * 33),
    "shape with a great many dimensions": _record("shape", [1] * 50_000),
    "shape missing": lambda body: body["shards"][0]["records"][0].pop("shape"),
    "negative sizes": _record("sizes", [-33]),
    "sizes beyond the shape": _record("sizes", [34]),
    "sizes of nothing": _record("sizes", [0]),
    "sizes of another dimension": _record("sizes", [33, 1]),
    "negative offsets": _record("offsets", [-1]),
    "offsets beyond the shape": _record("offsets", [1]),
    "offsets beyond any count": _record("offsets", [2**64]),
    "unknown number type": _record("dtype", "float128"),
    "number type of objects": _record("dtype", "object"),
    "number type that is an attribute": _record("dtype", "__class__"),
    "number type that is a function": _record("dtype", "load"),
    "number type that is a number": _record("dtype", 5),
    "number type of great length": _record("dtype", "f" * 100_000),
    "wider number type": _record("dtype", "float64"),
    "same width, other than the other worker's": _record("dtype", "float16"),
    # names
    "name with traversal": _record("name", "model/../../../etc/passwd"),
    "absolute name": _record("name", "/etc/passwd"),
    "name with a nul": _record("name", "model/bias\x00.bin"),
    "name with a line": _record("name", "model/bias\nx"),
    "name with an escape": _record("name", "model/\x1b[2J"),
    "name turned around": _record("name", "model/\u202ebias"),
    "name of half a character": _record("name", "model/\ud800"),
    "empty name": _record("name", ""),
    "name of another root": _record("name", "os/system"),
    "name of a root only": _record("name", ROOTS[0]),
    "name of great length": _record("name", "model/" + "x" * 5000),
    "name that is a list": _record("name", ["model/bias"]),
    "name of another record": _record("name", "model/weight"),
    "name that the other worker has not": _record("name", "model/other"),
    # where its bytes are said to lie
    "records that overlap": lambda body: [
        record.update(at=0) for record in body["shards"][0]["records"]
    ],
    "negative place": _record("at", -64),
    "place beyond the file": _record("at", 2**40),
    "place between": _record("at", 1),
    "place missing": lambda body: body["shards"][0]["records"][0].pop("at"),
    "place as text": _record("at", "0"),
    "records in another order": _with_records(lambda records: records[::-1]),
    "record twice": _with_records(lambda records: [*records, records[0]]),
    "record dropped": _with_records(lambda records: records[:-1]),
    "no records": _with_records(lambda _: []),
    "records as an object": _with_records(lambda records: {"0": records[0]}),
    "record as a list": _with_records(lambda records: [list(records[0].values()), *records[1:]]),
    "record with more in it": _record("__reduce__", ["os.system", "touch canary"]),
    "record with code": _record("code", "__import__('os').system('touch canary')"),
    # files
    "file by traversal": _shard("file", "../../../../etc/passwd"),
    "file by an absolute path": _shard("file", "/etc/passwd"),
    "file of another shard": _shard("file", "shard-1-of-2.bin"),
    "file of another checkpoint": _shard("file", "../step-20.inc-2/shard-0-of-2.bin"),
    "manifest as a shard": _shard("file", "manifest.json"),
    "device as a file": _shard("file", "/dev/zero"),
    "bytes beyond any disk": _shard("bytes", 2**62),
    "negative bytes": _shard("bytes", -1),
    "no bytes": _shard("bytes", 0),
    "bytes as text": _shard("bytes", "192"),
    "digest in capitals": lambda body: body["shards"][0].update(
        sha256=body["shards"][0]["sha256"].upper()
    ),
    "short digest": _shard("sha256", "ab"),
    "digest of nothing": _shard("sha256", sha256().hexdigest()),
    "digest of zeros": _shard("sha256", ZEROS),
    "no chunks": _shard("chunks", []),
    "too many chunks": lambda body: body["shards"][0]["chunks"].append(ZEROS),
    "no chunks, well digested": lambda body: body["shards"][0].update(
        chunks=[], sha256=sha256().hexdigest()
    ),
    "too many chunks, well digested": lambda body: body["shards"][0].update(
        chunks=[ZEROS, ZEROS], sha256=sha256(bytes(64)).hexdigest()
    ),
    "too few bytes, well digested": lambda body: body["shards"][0].update(
        chunks=[], sha256=sha256().hexdigest(), records=[], bytes=0
    ),
    "chunk of zeros": _shard("chunks", [ZEROS]),
    "chunk that is no digest": _shard("chunks", ["../../etc/passwd"]),
    "chunks as text": _shard("chunks", ZEROS),
    "shard with more in it": _shard("loader", "torch.load"),
    "no shards": _with_shards(lambda _: []),
    "shards as an object": _with_shards(lambda shards: {"0": shards[0]}),
    "more shards than workers exist": _with_shards(lambda _: [{}] * 70_000),
    "shard dropped": _with_shards(lambda shards: shards[:1]),
    "shards in another order": _with_shards(lambda shards: shards[::-1]),
    "shard twice": _with_shards(lambda shards: [shards[0], shards[0]]),
    # whose it is
    "another job": _head("job", "team/other"),
    "job as a list": _head("job", ["team/train"]),
    "job with an escape": _head("job", "team/train\x1b[31m"),
    "job of great length": _head("job", "j" * 10_000),
    "incarnation that never was": _head("incarnation", 3),
    "older incarnation under this name": _head("incarnation", 1),
    "negative incarnation": _head("incarnation", -1),
    "incarnation of truth": _head("incarnation", True),
    "incarnation as a fraction": _head("incarnation", 2.0),
    "another step": _head("step", 31),
    "negative step": _head("step", -30),
    "step beyond any count": _head("step", 10**30),
    "cursor as text": _head("cursor", "240"),
    "epoch missing": lambda body: body["head"].pop("epoch"),
    "world of nobody": _head("world", 0),
    "plan as a list": _head("plan", [2]),
    "plan with a plan in it": _head("plan", {"shard": {"shard": 2}}),
    "plan of great size": _head("plan", {str(key): key for key in range(1000)}),
    "negative plan": _head("plan", {"shard": -1}),
    "torch as an object": _head("torch", {"$": "leaf"}),
    "code with an escape": _head("code", "\x1b]0;pwned\x07"),
    "head with more in it": _head("import", "os"),
    # the document
    "another version": _top("version", 2),
    "version as text": _top("version", "1"),
    "version missing": lambda body: body.pop("version"),
    "written before all time": _top("written_seconds", -1.0),
    "written as text": _top("written_seconds", "now"),
    "facts missing": lambda body: body.pop("facts"),
    "more in it": _top("__import__", "os"),
}


def _sealed(rest: bytes) -> bytes:
    """A correct seal around bytes that need not be JSON."""
    opening = b'{"digest":"'
    digest = sha256(opening + b"0" * 64 + b'",' + rest).hexdigest().encode()
    return opening + digest + b'",' + rest


FILES: dict[str, bytes] = {
    "empty": b"",
    "zeros": bytes(4096),
    "pickle": PICKLE,
    "pickle in a seal": _sealed(PICKLE),
    "yaml": YAML,
    "archive": b"PK\x03\x04" + bytes(64),
    "list": b"[]",
    "digest only": _sealed(b"}"),
    "digest twice": _sealed(b'"digest":"%s","version":1}' % ZEROS.encode()),
    "key twice": _sealed(b'"version":1,"version":1}'),
    "not a number": _sealed(b'"version":NaN}'),
    "infinity": _sealed(b'"version":Infinity}'),
    "overflow": _sealed(b'"version":1e999}'),
    "many digits": _sealed(b'"version":' + b"1" * 5000 + b"}"),
    "deep lists": _sealed(b'"facts":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "deep objects": _sealed(b'"facts":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}"),
    "deep lists, never closed": _sealed(b'"facts":' + b"[" * 1_000_000),
    "no text": _sealed(b'"version":"\xff\xfe"}'),
    "more behind": _sealed(b'"version":1}{"version":1}'),
    "comment": _sealed(b'"version":1/*x*/}'),
    "two bytes per character": '{"version":1}'.encode("utf-16"),
    "mark in front": b"\xef\xbb\xbf" + seal({"version": 1}),
}
