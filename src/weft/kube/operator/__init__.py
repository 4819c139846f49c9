"""The operator: observe, let the brain decide, record, act.

`main.py` is the process, and a term is one life of its brain: `intake.py` takes in what changed,
`decider.py` hands it to the brain, and the executor looks at each job that is concerned.

    observation/   what is seen of the cluster
    status/        what people read of jobs, queues and waits
    reconcile/     what follows from observation and belief
    executor/      what is done about it

Each room may import those above it in this list, and nothing here is imported from outside but
`main.py`, `options.py` and `no_journal.py`.
"""
