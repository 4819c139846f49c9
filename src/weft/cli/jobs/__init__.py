"""Commands for jobs: to submit one, to look at it, to wait for it, to end it.

They ask a world (`weft.cli.worlds`) and never a cluster or a daemon by themselves.
"""
