"""The simulated world: a virtual clock, one heap, and the same brain as everywhere."""
