"""What people are shown of any world, as frozen values: the same words on a machine and a cluster.

A world makes these values from what it knows, an API sends them, a command draws them or prints
them as JSON. None of them knows where it came from. Standard library only: whoever only wants to
look must not wait for a solver, a validator or a client of Kubernetes.
"""
