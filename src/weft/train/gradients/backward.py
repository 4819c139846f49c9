"""The backward pass of one micro-batch, and on the last one of a step the sum over all members."""

from collections.abc import Callable

from torch import Tensor

from weft.agent.plan import Plan
from weft.crash import passing
from weft.model.errors import SpecError
from weft.train.data.loader import MicroBatch
from weft.train.gradients.flag import Flag
from weft.train.gradients.reducer import Reduction
from weft.train.open_micro_batch import OpenMicroBatch
from weft.train.plans.computed import check_deferred, compute
from weft.train.stages import Stage, Stages


class BackwardPass:
    """Of one process; `hand_over` is where all agree on how far newcomers have the state."""

    def __init__(
        self,
        reduction: Reduction,
        stages: Stages,
        hand: OpenMicroBatch,
        hand_over: Callable[[], None],
    ) -> None:
        self._reduction, self._stages, self._hand = reduction, stages, hand
        self._hand_over = hand_over

    def compute(self, loss: Tensor, micro: MicroBatch, raised: frozenset[Flag], plan: Plan) -> None:
        """FSDP2 gives the mean over its shards, and what is wanted is the sum."""
        self._stages.enter(Stage.BACKWARD)
        self._reduction.before_backward(last=micro.last, raised=raised)
        if self._counts(loss, plan):
            compute(loss, self._hand.factor * plan.shard, self._reduction.backward)
        passing("after-backward")
        self._stages.enter(Stage.COMM_EXPOSED)
        if micro.last and not self._handed_over():
            return
        self._reduction.after_backward(
            last=micro.last,
            weight=self._hand.share_weight,
            part=self._hand.part // max(micro.samples, 1),
        )

    def compute_nothing(self, loss: Tensor, raised: frozenset[Flag], plan: Plan) -> None:
        """For who has no samples in this step, alone or with its whole replica."""
        if plan.unit > 1:  # what a replica gathers in the forward pass it gives back
            self._reduction.gradients.expecting = True
            compute(loss, 0.0, self._reduction.backward)
        self._stages.enter(Stage.COMM_EXPOSED)
        if self._handed_over():
            self._reduction.contribute_nothing(raised)

    def _counts(self, loss: Tensor, plan: Plan) -> bool:
        """A mean over nothing is no number, and no weight makes it one: it is left out.

        Those who hold a model together cannot leave anything out.
        """
        if plan.pipeline > 1:
            check_deferred(loss)
        factor = self._hand.factor
        if plan.unit > 1 and not factor and not loss.isfinite().all():
            raise SpecError(
                "a micro-batch without weight has no loss",
                hint="with --shard let the loss be a number, or each micro-batch have a token",
            )
        return plan.unit > 1 or factor > 0

    def _handed_over(self) -> bool:
        """A newcomer's buffers come with the state, and only then from the sum of the step."""
        try:
            self._hand_over()
        except Exception as error:
            self._reduction.failure = error
            self._reduction.gradients.expecting = False
            return False
        return True
