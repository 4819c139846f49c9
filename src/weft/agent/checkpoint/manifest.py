"""The manifest of a checkpoint: one sealed document that says what the files beside it are.

It is a closed schema. No path is taken from it: shards are called by their number, and the name it
states is only compared. Every count is bounded before anything is allocated by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weft.agent.checkpoint import chunks, layout
from weft.agent.checkpoint.document import Fields, Json, check_digest, seal, unseal
from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.layout import MOST_RECORDS, Piece, check_together, packed_bytes

VERSION: Final = 1
NAME: Final = "manifest.json"
MOST_BYTES: Final = 512 << 20  # 70 billion parameters in 128 shards need 65 MiB
MOST_SHARDS: Final = 65_536
MOST_CHUNKS: Final = 1 << 22
MOST_TEXT: Final = 253
MOST_PLAN: Final = 32

Plan = Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What all shards of a checkpoint have in common."""

    job: str
    incarnation: int
    epoch: int
    step: int
    cursor: int
    world: int
    plan: Plan
    code: str
    torch: str


@dataclass(frozen=True, slots=True)
class Shard:
    """One file: what a worker held."""

    file: str
    chunks: tuple[str, ...]
    pieces: tuple[Piece, ...]

    @property
    def bytes(self) -> int:
        return packed_bytes(self.pieces)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All of a checkpoint but the tensors' bytes."""

    head: Head
    written_seconds: float
    shards: tuple[Shard, ...]
    facts: Json


@dataclass(frozen=True, slots=True)
class Entry:
    """What an agent leaves beside its shard for the one who completes the set."""

    head: Head
    shard: Shard
    facts: Json


def shard_file(index: int, count: int) -> str:
    return f"shard-{index}-of-{count}.bin"


def entry_file(index: int, count: int) -> str:
    return f"entry-{index}-of-{count}.json"


def encode(manifest: Manifest) -> bytes:
    return seal(
        {
            "version": VERSION,
            "head": _head_json(manifest.head),
            "written_seconds": manifest.written_seconds,
            "shards": [_shard_json(shard) for shard in manifest.shards],
            "facts": manifest.facts,
        }
    )


def decode(data: bytes) -> Manifest:
    """A manifest whose every number is in bounds and whose tensors are whole."""
    fields = Fields(unseal(data, NAME), NAME)
    if fields.count("version") != VERSION:
        raise Damaged(f"{NAME} is of version {fields.count('version')}")
    fields.only("version", "head", "written_seconds", "shards", "facts")
    values = fields.items("shards", most=MOST_SHARDS)
    if not values:
        raise Damaged(f"{NAME} names no shard")
    shards = tuple(
        _shard(value, shard_file(index, len(values))) for index, value in enumerate(values)
    )
    head = _head(fields.value("head"), NAME)
    check_together([shard.pieces for shard in shards], staged=head.plan.get("pipeline", 1) != 1)
    return Manifest(
        head=head,
        written_seconds=fields.number("written_seconds"),
        shards=shards,
        facts=fields.value("facts"),
    )


def encode_entry(entry: Entry) -> bytes:
    head, shard = _head_json(entry.head), _shard_json(entry.shard)
    return seal({"version": VERSION, "head": head, "shard": shard, "facts": entry.facts})


def decode_entry(data: bytes, index: int, count: int) -> Entry:
    name = entry_file(index, count)
    fields = Fields(unseal(data, name), name)
    fields.only("version", "head", "shard", "facts")
    shard = _shard(fields.value("shard"), shard_file(index, count))
    return Entry(_head(fields.value("head"), name), shard, fields.value("facts"))


def _head_json(head: Head) -> Json:
    return {name: _plain(getattr(head, name)) for name in Head.__slots__}


def _plain(value: Json) -> Json:
    return dict(value) if isinstance(value, Mapping) else value


def _head(value: object, where: str) -> Head:
    fields = Fields(value, where)
    fields.only(*Head.__slots__)
    return Head(
        job=fields.text("job", most=MOST_TEXT),
        incarnation=fields.count("incarnation"),
        epoch=fields.count("epoch"),
        step=fields.count("step"),
        cursor=fields.count("cursor"),
        world=fields.count("world", least=1),
        plan=_plan(fields.value("plan"), where),
        code=fields.text("code", most=MOST_TEXT),
        torch=fields.text("torch", most=MOST_TEXT),
    )


def _plan(value: object, where: str) -> Plan:
    if not isinstance(value, dict) or len(value) > MOST_PLAN:
        raise Damaged(f"{where}: plan is no small object")
    fields = Fields(value, f"{where}: plan")
    return {
        name: fields.text(name, most=MOST_TEXT) if isinstance(one, str) else fields.count(name)
        for name, one in value.items()
    }


def _shard_json(shard: Shard) -> Json:
    return {
        "file": shard.file,
        "bytes": shard.bytes,
        "sha256": chunks.root(shard.chunks),
        "chunks": list(shard.chunks),
        "records": layout.to_json(shard.pieces),
    }


def _shard(value: object, file: str) -> Shard:
    fields = Fields(value, file)
    fields.only("file", "bytes", "sha256", "chunks", "records")
    if fields.text("file", most=MOST_TEXT) != file:
        raise Damaged(f"{file} is called otherwise in {NAME}")
    pieces = layout.from_json(fields.items("records", most=MOST_RECORDS), file)
    shard = Shard(file, _chunks(fields, file), pieces)
    if fields.count("bytes") != shard.bytes:
        raise Damaged(f"{file}: its records do not make up its bytes")
    if len(shard.chunks) != chunks.chunk_count(shard.bytes):
        raise Damaged(f"{file}: {len(shard.chunks)} chunks for {shard.bytes:,} bytes")
    if fields.digest("sha256") != chunks.root(shard.chunks):
        raise Damaged(f"{file}: its digest is not that of its chunks")
    return shard


def _chunks(fields: Fields, where: str) -> tuple[str, ...]:
    values = fields.items("chunks", most=MOST_CHUNKS)
    return tuple(check_digest(value, f"{where}: chunk {at}") for at, value in enumerate(values))
