"""A real Kubernetes control plane for tests and benchmarks, without containers or root.

Whatever Weft says about Kubernetes is proved against the real programs: etcd, kube-apiserver,
kube-controller-manager and kube-scheduler, with kwok in the place of the kubelets. `build` makes
the programs, `ControlPlane` runs them.
"""

from tools.testcluster.control_plane import ControlPlane

__all__ = ["ControlPlane"]
