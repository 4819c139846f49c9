"""In whose company: which jobs take turns on the same GPUs."""
