"""Manifests of large models: what 128 workers hold of 70 billion parameters can be described."""

from weft.agent.checkpoint import chunks
from weft.agent.checkpoint.document import plain
from weft.agent.checkpoint.layout import TensorRecord, pack, packed_bytes
from weft.agent.checkpoint.manifest import MOST_BYTES, Shard, _shard_json, shard_file

HIDDEN, INNER, WORDS, LAYERS, SHARDS = 8192, 28672, 128_256, 80, 128
ROOM = 4  # times what is needed, for models and widths to come
OF_A_LAYER = {
    **dict.fromkeys(("self_attn.q_proj", "self_attn.o_proj"), (HIDDEN, HIDDEN)),
    **dict.fromkeys(("self_attn.k_proj", "self_attn.v_proj"), (1024, HIDDEN)),
    **dict.fromkeys(("mlp.gate_proj", "mlp.up_proj"), (INNER, HIDDEN)),
    "mlp.down_proj": (HIDDEN, INNER),
    **dict.fromkeys(("input_layernorm", "post_attention_layernorm"), (HIDDEN,)),
}


def weights() -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (WORDS, HIDDEN),
        "lm_head.weight": (WORDS, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    for layer in range(LAYERS):
        for name, shape in OF_A_LAYER.items():
            found[f"model.layers.{layer}.{name}.weight"] = shape
    return found


def a_shard() -> Shard:
    """What one of the workers holds, with AdamW."""
    records = []
    for name, shape in weights().items():
        part = -(-shape[0] // SHARDS)
        offsets, sizes = (part, *(0 for _ in shape[1:])), (part, *shape[1:])
        records.append(TensorRecord(f"model/{name}", "float32", shape, offsets, sizes))
        for key in ("exp_avg", "exp_avg_sq"):
            path = f"optimizer/{name}/{key}"
            records.append(TensorRecord(path, "float32", shape, offsets, sizes))
        records.append(TensorRecord(f"optimizer/{name}/step", "float32", (), (), ()))
    pieces = pack(records)
    digests = ("0" * 64,) * chunks.chunk_count(packed_bytes(pieces))
    return Shard(shard_file(1, SHARDS), digests, pieces)


def test_the_manifest_of_70_billion_parameters_in_128_shards_has_room() -> None:
    needed = len(plain(_shard_json(a_shard()))) * SHARDS
    assert needed > 60 << 20
    assert ROOM * needed <= MOST_BYTES
