"""A plan that was decided is read back as it was, whatever its degrees."""

from hypothesis import given
from hypothesis import strategies as st

from tests.kube.looks import a_job
from weft.kube.operator.observation.recorded_decision import read_decision
from weft.kube.operator.status.patches import decision_patch
from weft.kube.resources.training_job import Plan
from weft.model.decision import Assignment
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.plan import ExecutionPlan, Sharding
from weft.model.state import State

DEGREE = st.integers(1, 8)


@given(
    st.builds(
        ExecutionPlan,
        data=st.integers(0, 8),
        tensor=DEGREE,
        pipeline=DEGREE,
        sharding=st.sampled_from(Sharding),
        accumulation_steps=DEGREE,
        recompute=st.booleans(),
        offload=st.booleans(),
        micro_batches=DEGREE,
        shard_degree=st.integers(0, 8),
        context=DEGREE,
        expert=DEGREE,
    )
)
def test_a_plan_survives_the_record(plan: ExecutionPlan) -> None:
    there = Placement((Seat(NodeId("a"), 1),))
    given_seats = Assignment(1, there, plan=plan)
    patch = decision_patch(a_job("j"), 1, given_seats, state=State.STARTING, now=0.0, leader=1)
    decision = patch["status"]["decision"]
    assert read_decision(decision).plan == plan
    kept = Plan.model_validate(decision["plan"] or {}).model_dump(by_alias=True)
    assert (
        read_decision({"plan": kept}).plan == plan
    )  # the API server drops what it has no field for
