"""Names of things, as distinct types: mypy refuses a node's name where a job's is due."""

from typing import NewType

JobId = NewType("JobId", str)
TenantId = NewType("TenantId", str)
QueueId = NewType("QueueId", str)
PoolId = NewType("PoolId", str)
RackId = NewType("RackId", str)
NodeId = NewType("NodeId", str)
GpuType = NewType("GpuType", str)
PartyId = NewType("PartyId", str)
InstructionId = NewType("InstructionId", str)

DEFAULT_TENANT = TenantId("default")
DEFAULT_QUEUE = QueueId("default")
DEFAULT_POOL = PoolId("pool")
DEFAULT_RACK = RackId("rack")
ANY_GPU = GpuType("gpu")
