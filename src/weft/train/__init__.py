"""What runs inside a user's training process: data, gradients and state, for any world size.

Scripts come in by `weft` itself (`api.py`), by `huggingface` or by `lightning`, and the agent by
`zygote`: the names of these modules and what they offer are promises. All else may change.
`session.py` is one training process, step by step, and is made of these folders:

    membership/   how it joins others, switches with them, and mends what is broken
    gradients/    what is summed in a step, by whom and in which order
    plans/        how several workers hold one model together
    groups/       torch's process groups, that come and go with epochs
    data/         which samples it reads, and by whom they are read
    state/        what must survive: named, saved, sent and loaded
    exchange/     checkpoints in the formats of others
"""
