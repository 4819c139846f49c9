"""GPU types of nodes and jobs, brought to one form: `spec.gpu_names` says how."""

from weft.spec.gpu_names import short_name

__all__ = ["short_name"]
