"""The supervisor of a job on one machine: its workers, their epochs, and the state they leave.

Nothing here imports torch: the agent starts at once, and it outlives the training processes.
`agent.py` is the agent of one machine and the place where all parts meet; each folder is one part.

    coordination/   what is to be done, decided purely
    pods/           a job over several pods: the head, its followers, and who leads next
    workers/        processes, what they see of the machine, what they print
    messages/       the vocabulary of agent, workers, drivers and seats
    wire/           the connections that carry it
    checkpoint/     state that outlives the process that computed it
    leases/         turns of several jobs on the same GPUs
    reports/        what is told to whoever asked for the job
"""
