"""Commands of the lab: workloads run under recipes. They need no world and no GPU."""
