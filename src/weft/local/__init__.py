"""The local world: one machine, its GPUs and the people who share it, decided by the same brain.

`daemon.py` is the process, and a term is one life of its brain. A term looks at each job, asks what
is to be done next, and lets the executor do it; the status writer writes down what people read.

    machine/     what there is
    record/      what is on record, and stays there
    reconcile/   what follows from record, observation and belief
    agents/      the processes of jobs, under the accounts of their owners
    answers/     what the API is answered with
"""
