"""Which document is of which kind, in the order of reading."""

KINDS: dict[str, tuple[str, ...]] = {
    "Guides": (
        *("first-job", "workloads", "recipes", "notebook", "local", "install", "training"),
        *("plain-scripts", "coming-from-slurm", "coming-from-kueue"),
    ),
    "Concepts": (
        *("architecture", "elastic", "checkpoints", "stages", "company", "plans"),
        *("repository/SECURITY", "glossary"),
    ),
    "Reference": (
        *(
            "cli",
            "recipe-parameters",
            "job-file",
            "reasons",
            "failures",
            "failures-shown",
            "company-shown",
            "metrics",
            "api",
            "parity",
        ),
        *("benchmarks", "repository/CHANGELOG", "repository/CONTRIBUTING"),
    ),
    "Decisions": ("adr/index",),
}
