"""Company: turns on GPUs that this process shares with other jobs, taken at the borders of stages.

Only a session whose agent says so has any of it. Nothing here raises into the training, and nothing
waits without a bound: without a server, or with one that is silent, the training goes on as alone.
"""
