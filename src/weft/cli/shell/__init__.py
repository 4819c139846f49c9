"""`weft shell`: an interactive session that is a job, and gives its GPUs back when nobody works.

`command` submits the job and waits for it, `session` is what the job runs, `attach` is the terminal
at this end, and `frames` is what the two say to each other over a socket of the user's own.
"""
