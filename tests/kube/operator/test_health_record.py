"""What is remembered of nodes and services is found by the next leader, and by nobody else."""

import asyncio
from collections.abc import Mapping
from typing import Any

from tests import virtual_time
from tests.virtual_time import pass_time
from weft.failure.breaker import Strike
from weft.failure.health import WELL, Health, struck
from weft.kube.client.errors import Forbidden, NotFound
from weft.kube.health_map import HealthMap, packed, unpacked
from weft.kube.operator import health_record
from weft.kube.operator.health_record import HealthRecord
from weft.model.ids import JobId, TenantId

HIT = struck(WELL, "s3", Strike(1.0, JobId("lab/a"), TenantId("lab")))
PLACE = HealthMap("weft-system", "weft-operator-health")


class OneMap:
    """An API server with room for one object; it refuses as often as it is told to."""

    def __init__(self, refusals: int = 0) -> None:
        self.kept: Mapping[str, Any] | None = None
        self.refusals, self.writes = refusals, 0

    async def get(self, path: str) -> Mapping[str, Any]:
        assert path == PLACE.path
        if self.kept is None:
            raise NotFound("no such map")
        return self.kept

    async def patch(self, path: str, body: Mapping[str, Any], **_: object) -> None:
        self.writes += 1
        if self.writes <= self.refusals:
            raise Forbidden("not yours")
        self.kept = body


def keep_for(api: OneMap, values: list[Health], looks: int = 10) -> None:
    async def work() -> None:
        record = HealthRecord(api, PLACE)  # type: ignore[arg-type]
        await record.recalled()
        newest = iter(values)
        last = values[-1]
        keeping = asyncio.create_task(record.keep(lambda: next(newest, last)))
        await pass_time(looks * health_record.LOOK_SECONDS)
        keeping.cancel()

    virtual_time.run(work())


def test_the_next_leader_finds_it() -> None:
    api = OneMap()
    keep_for(api, [WELL, HIT])
    assert api.writes == 1
    record = HealthRecord(api, PLACE)  # type: ignore[arg-type]
    assert asyncio.run(record.recalled()) == HIT


def test_where_it_may_not_be_written_the_term_goes_on() -> None:
    api = OneMap(refusals=99)
    keep_for(api, [HIT], looks=100)
    assert api.kept is None and 1 < api.writes < 50, "it is tried again, ever later"


def test_a_value_survives_its_packing_and_rubbish_is_nothing() -> None:
    assert unpacked(packed(HIT)) == HIT
    for rubbish in ("", "x", "eJwDAAAAAAE=", packed(HIT)[:-8]):
        assert unpacked(rubbish) is WELL
