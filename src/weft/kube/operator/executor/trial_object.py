"""The object of a trial: a training job that belongs to its gang and goes with it."""

from typing import Any

from weft.kube.names import FINALIZER
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.pods import owner_of
from weft.kube.resources.training_job import manifest
from weft.model.trial import SUFFIX
from weft.reconcile.trial import trial_spec


def trial_object(gang: ObservedJob) -> dict[str, Any]:
    """What is to be created for this gang."""
    assert gang.spec is not None
    spec = trial_spec(gang.spec.model_dump(mode="json", exclude_unset=True))
    made = manifest(f"{gang.name}{SUFFIX}", spec, namespace=gang.namespace)
    made["metadata"] |= {
        "ownerReferences": [owner_of(gang.name, gang.uid)],
        "finalizers": [FINALIZER],
    }
    return made
