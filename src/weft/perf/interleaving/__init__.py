"""What jobs do to each other on the same GPUs: stages, cycles, the speed of a group."""
