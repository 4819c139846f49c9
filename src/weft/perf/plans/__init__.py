"""Execution plans: which there are, what memory and time they need, and which one is best where.

Pure code over a model's shape and what its program offers (`weft.model`), a cluster's fabric and
measured steps. `laws` and `space` say which plans there are; `memory` and `step` what each needs;
`fit` and `design` learn a job's step time from few points, `correction` and `watch` from what it
really does; `curve` and `sensitivity` are what a choice over all jobs stands on.
"""
