"""Whatever workers report, the brain takes it in whole or not at all, and goes on deciding.

Reports come as bytes through the reader of the endpoint, with the numbers that a JSON reader lets
through and nobody means: the smallest and the largest, steps that go back, totals that jump.
"""

import asyncio
from math import inf
from typing import Any

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kube.operator.stage import RUNNING, Raw, Stage
from weft.brain.event import Tick
from weft.brain.journal import Journal
from weft.kube.operator.main import Operator
from weft.kube.operator.options import OperatorOptions
from weft.kube.reports.payload import MOST_COUNT, MOST_NUMBER, read_kubeflow, read_weft
from weft.kube.reports.refusal import Refusal
from weft.kube.reports.server import WorkerIdentity

JOBS = ("a/one", "a/two")
ODD = (5e-324, 1e-300, 1e-9, 1.0, 1e9, 1.7e308, MOST_NUMBER, -MOST_NUMBER, 0.0, -0.0, inf)
WHOLE = (0, 1, 2, 7, 8, 2**31, 2**53 - 1, MOST_COUNT, 2**63, 2**64, -1)
number = st.one_of(st.sampled_from(ODD), st.floats(0.001, 1000.0))
count = st.one_of(st.sampled_from(WHOLE), st.integers(0, 1000))


own = st.fixed_dictionaries(
    {"step": count},
    optional={
        "total_steps": count,
        "checkpoint_step": count,
        "loss": number,
        "throughput": number,
        "width": count,
        "live": st.booleans(),
        "paused_seconds": number,
        "speed": st.fixed_dictionaries(
            {
                "number": st.integers(1, 5),
                "width": st.sampled_from((1, 1, 1, 8, 2**53 - 1)),
                "steps_per_second": number,
                "seconds": number,
            }
        ),
    },
)
texts = st.sampled_from(("0", "1e999", "-1", "5e-324", "1e18", "nan", "7", "12345678901234567"))
metric = st.fixed_dictionaries(
    {"name": st.sampled_from(("current_step", "total_steps", "loss", "x")), "value": texts}
)
foreign = st.fixed_dictionaries(
    {
        "trainerStatus": st.fixed_dictionaries(
            {},
            optional={
                "progressPercentage": st.integers(-1, 101),
                "estimatedRemainingSeconds": count,
                "metrics": st.lists(metric, max_size=4),
            },
        )
    }
)
told = st.tuples(
    st.sampled_from(JOBS), st.integers(0, 1), st.floats(0.0, 60.0), st.one_of(own, foreign)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(told, min_size=1, max_size=25))
def test_no_report_stops_the_brain_half_way(reports: list[tuple[str, int, float, Raw]]) -> None:
    asyncio.run(_tell(reports))


async def _tell(reports: list[tuple[str, int, float, Raw]]) -> None:
    stage = Stage("weave")
    stage.node("n1")
    stage.queue("default")
    for job in JOBS:
        stage.job(job, RUNNING, resources={"gpus": "1..8"})
        stage.pod(job, epoch=1, seat=0, node="n0")
    stage.term._begin()
    options = OperatorOptions(namespace="weft", identity="me", recipe="weave")
    operator = Operator(options, lambda *_: Journal())
    operator._term = stage.term
    for job, seat, later, body in reports:
        stage.term.decider._behind_monotonic += later
        try:
            namespace, _, name = job.partition("/")
            identity = WorkerIdentity(namespace, name, 1, seat, name)
            operator.hear(identity, _read(body))
        except Refusal:
            pass
        stage.term.decider.deliver(Tick(stage.term.now()))
        for one in JOBS:
            stage.term.standing(one, stage.state(one), "")
    assert not stage.term.decider.serial_queue.broken


def _read(body: Raw) -> Any:  # noqa: ANN401 - a report of either shape
    try:
        sent = orjson.dumps(body)
    except TypeError as error:  # beyond what JSON has
        raise Refusal(400, "no JSON", hint="") from error
    return (read_kubeflow if "trainerStatus" in body else read_weft)(sent)
