"""A real Kubernetes control plane for tests and benchmarks, and real nodes where they are needed.

Whatever Weft says about Kubernetes is proved against the real programs: etcd, kube-apiserver,
kube-controller-manager and kube-scheduler. `build` makes the programs, `ControlPlane` runs them,
without containers or root and with kwok in the place of the kubelets. `real_nodes` has real ones,
with containers, services and names; that takes root, and what `provide` installs.
"""

from tools.testcluster.control_plane import ControlPlane

__all__ = ["ControlPlane"]
