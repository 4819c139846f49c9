"""Which share of the node beside the GPUs."""
