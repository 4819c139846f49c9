"""What is to be done about one job next, decided purely.

Record, observation and belief go in, one step comes out. Nothing here waits, writes or starts
anything; that is the executor's.
"""
