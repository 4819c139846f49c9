"""Leases: which of several jobs on the same GPUs has its turn with a resource.

Pure: no clock, no I/O. Whoever serves them brings the time; whoever trains asks at the borders of
stages and goes on at its bound, come what may. Nothing outside may change a table but by its verbs.
"""
