"""The epochs of one job, decided purely: events in, actions out.

Nothing here reads a clock, opens a socket or starts a process; the time comes with each event. The
tests drive these modules against workers of the real protocol, through thousands of random
histories. A change here needs a mutant there that the histories would find.
"""
