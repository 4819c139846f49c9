"""All legal plans of a model on given widths, as columns.

Two kinds of legal plans are left out, because another one is never worse: with stages a batch is
split into micro-batches and not accumulated as well, which would empty the pipeline in between;
and with one replica there is nothing to share out.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from math import isqrt

import numpy as np

from weft.model.capability import OF_SHARDING, Capability, Offers, PlanFamily
from weft.model.plan import Sharding
from weft.perf.plans.columns import STAGES, Ints, PlanColumns
from weft.perf.plans.laws import Bounds

COLUMNS = 9
FSDP2 = STAGES.index(Sharding.PARAMETERS)
REMEMBERED = 256


@lru_cache(maxsize=REMEMBERED)
def legal_plans(bounds: Bounds, widths: tuple[int, ...]) -> PlanColumns:
    """Every plan that breaks no law on one of these widths; whether it fits memory is not asked."""
    blocks = [_variants(*degrees, bounds.offers) for degrees in _degrees(bounds, widths)]
    rows = np.concatenate(blocks) if blocks else np.empty((0, COLUMNS), np.int64)
    return PlanColumns.from_table(rows)


def plans_of_families(
    bounds: Bounds, widths: tuple[int, ...], families: tuple[PlanFamily, ...]
) -> PlanColumns:
    """Every legal plan that one of these commands can be told."""
    tables = []
    for family in families:
        plans = legal_plans(replace(bounds, offers=frozenset(family.offers)), widths)
        own = (plans.stage == STAGES.index(family.sharding)) | (plans.data == 1)
        tables.append(plans.take(own).table)
    return PlanColumns.from_table(np.unique(np.concatenate(tables), axis=0))


@lru_cache(maxsize=REMEMBERED)
def divisors(number: int) -> tuple[int, ...]:
    small = [part for part in range(1, isqrt(number) + 1) if number % part == 0]
    return tuple(sorted({*small, *(number // part for part in small)}))


def _degrees(bounds: Bounds, widths: tuple[int, ...]) -> Iterator[tuple[int, int, int, int]]:
    """Data, tensor, pipeline, and the samples of the batch that each replica has."""
    shape, node = bounds.shape, bounds.gpus_per_node
    tensors = [
        t
        for t in (divisors(node) if Capability.TENSOR in bounds.offers else (1,))
        if shape.attention_heads % t == 0
    ]
    pipelines = divisors(shape.layers) if Capability.PIPELINE in bounds.offers else (1,)
    for width, tensor, pipeline in product(widths, tensors, pipelines):
        data, rest = divmod(width, tensor * pipeline)
        if rest or data < 1 or bounds.batch % data:
            continue
        if data > 1 and Capability.DATA not in bounds.offers:
            continue
        yield data, tensor, pipeline, bounds.batch // data


def _variants(data: int, tensor: int, pipeline: int, samples: int, offers: Offers) -> Ints:
    """The same degrees with every sharding, every split of the samples and every switch."""
    rest = _rest(data, samples, pipeline > 1, offers)
    rows = np.empty((len(rest), COLUMNS), np.int64)
    rows[:, :3] = data, tensor, pipeline
    rows[:, 3:] = rest
    return rows


@lru_cache(maxsize=REMEMBERED)
def _rest(data: int, samples: int, staged: bool, offers: Offers) -> Ints:
    switches = product(
        (0, 1) if Capability.RECOMPUTE in offers else (0,),
        (0, 1) if Capability.OFFLOAD in offers else (0,),
    )
    ways = product(_shardings(data, offers), _splits(samples, staged, offers), switches)
    return np.array([(*sharding, *split, *switch) for sharding, split, switch in ways], np.int64)


def _splits(samples: int, staged: bool, offers: Offers) -> tuple[tuple[int, int], ...]:
    """Accumulation steps and micro-batches."""
    if staged:
        return tuple((1, micro) for micro in divisors(samples))
    if Capability.ACCUMULATION in offers:
        return tuple((steps, 1) for steps in divisors(samples))
    return ((1, 1),)


def _shardings(data: int, offers: Offers) -> tuple[tuple[int, int], ...]:
    """ZeRO's stage, and the replicas that share one copy."""
    found = [(0, 1)]
    if data == 1:
        return tuple(found)
    found.extend((n, data) for n, name in enumerate(STAGES) if n and OF_SHARDING[name] in offers)
    if {Capability.HYBRID, Capability.FSDP2} <= offers:
        found.extend((FSDP2, part) for part in divisors(data)[1:-1])
    return tuple(found)


def forgotten() -> None:
    """Let go of all that is remembered, as when a computation is to be timed."""
    legal_plans.cache_clear()
    _rest.cache_clear()
