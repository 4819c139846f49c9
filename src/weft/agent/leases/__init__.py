"""Leases: which of several jobs on the same GPUs has its turn with a resource.

`table` and `gangs` are pure: no clock, no I/O. `server` brings the time and the connections, in a
process of its own that `company` looks after; whoever trains asks it at the borders of stages and
goes on at its bound, come what may. Nothing outside may change a table but by its verbs.
"""
