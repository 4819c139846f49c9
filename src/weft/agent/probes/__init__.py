"""Probes of a machine: does it do what it should, and as fast as it should?

Each is small, harmless beside a training job, and ends soon. They run in a process of their own,
which is killed when its time is over: what hangs in a driver or on a disk is a finding, and hangs
nobody else. `python -m weft.agent.probes` runs them here.
"""
