"""Shapes of known models."""

from weft.model.shape import ModelShape

BERT = ModelShape(
    parameters=336_000_000,
    layers=24,
    hidden=1024,
    sequence=512,
    vocabulary=30_522,
    heads=16,
    tied=True,
)
GPT2 = ModelShape(
    parameters=1_557_686_400,
    layers=48,
    hidden=1600,
    sequence=1024,
    vocabulary=50_257,
    heads=25,
    tied=True,
)
LLAMA7 = ModelShape(
    parameters=6_738_415_616,
    layers=32,
    hidden=4096,
    sequence=2048,
    vocabulary=32_000,
    heads=32,
    feed_forward=11_008,
    gated=True,
)
LLAMA30 = ModelShape(
    parameters=32_528_943_616,
    layers=60,
    hidden=6656,
    sequence=2048,
    vocabulary=32_000,
    heads=52,
    feed_forward=17_920,
    gated=True,
)
LLAMA70 = ModelShape(
    parameters=68_976_648_192,
    layers=80,
    hidden=8192,
    sequence=4096,
    vocabulary=32_000,
    heads=64,
    kv_heads=8,
    feed_forward=28_672,
    gated=True,
)
ALL = (BERT, GPT2, LLAMA7, LLAMA30, LLAMA70)
