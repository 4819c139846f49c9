"""A job over several pods: the head leads, a follower serves it on each of the other seats.

Who leads is on record with the operator, so at most one head decides. What is said to the operator
is a contract between versions: an older operator must understand it.
"""
