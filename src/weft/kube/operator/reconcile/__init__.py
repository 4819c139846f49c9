"""What is to be done about one job next, decided purely.

Observation and belief go in, one step comes out: events for the brain, or actions for the executor.
Nothing here waits, writes or calls the API server, so every step can be tested without a cluster.
"""
