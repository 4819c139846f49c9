"""`docs/failures.md`, written from classes and rules: `python -m weft.lab.failures_page > …`.

A test holds the page against this text, so that no class and no rule changes without it.
"""

import sys
from collections.abc import Iterator

from weft.failure.classes import FailureClass, Retry
from weft.failure.rulebook import shipped

ABOUT = """\
# Why a job fails, and what follows

A failure is looked into with rules: each names lines of a log, of a kernel or of a platform, and
belongs to a class. The class says whose fault it is, what a retry can do about it, and what to tell
the owner. Causes count for more than what confirms them, and that for more than what other workers
notice; the kernel's word, shortly before the first error, counts for more than the program's. The
line that decided is kept.

A world that reports a failure with what was found has it judged by its class; one that reports no
more than an exit status has it judged by how often the job has failed. What follows for everybody:

- **Away from the node.** A job goes on where it has not failed, for half an hour, if it can.
- **Breakers.** Jobs of several users that fail on one service within ten minutes wait for it
  together (`Breaker.Open`), blamed for nothing; it is asked every 30 s, and they come back spread
  over 80 s. Where nobody can ask it, jobs try again after ten minutes.
- **Nodes set aside.** Nothing starts on a node that its kernel or several users' jobs blame
  (`Health.SetAside`), until a check passes; at most 5 % of a pool, or one node. A node that failed
  three jobs in four weeks must be repaired, whatever a check says.

- **Trials.** Where the brain is set to it, a gang that waits runs its first minutes on one GPU, in
  a pool of at most a hundredth of the GPUs; what that shows is held against the gang.

All of it can be tried out: `weft simulate --failures philly` draws failures like Philly's, bad
nodes and outages from the seed, and `weft why JOB --run DIR` tells of a failed job the class, the
line, what was done and what to do. This page is written by `python -m weft.lab.failures_page`.
"""
CURES = {
    Retry.STOP: "none; one more try where it came after an hour of running",
    Retry.CHANGE: "one try with what the job offers to change, otherwise as `stop`",
    Retry.CONFIRM: "one try, on other nodes if there are some; the same again is final",
    Retry.BACK_OFF: "after 60 s, twice as long each time up to 30 min, five in a day",
    Retry.MOVE: "at once, without the node at fault; not charged to the job, ten in a day",
    Retry.ROLL_BACK: "from the checkpoint before the last one, twice in a day",
    Retry.REQUEUE: "it has not failed: it goes on where it stood",
}
ABOVE_ALL = """\
Over all of them: a third attempt with the same failure and no new checkpoint between is the last
(the sixth on a service), and so is a second one on entirely different nodes, unless the kernel
names the machine. A job that saves something new each time is never stopped.
"""
OWN = """\
## Rules of your own

They are written in YAML and go before those below. A rule must name its own examples. Patterns are
regular expressions in which every repetition has a bound (`.{0,40}`, never `.*`), groups are
`(?:…)`, and each alternative holds a plain word of four letters: what could take long on some line
is refused, with a hint.

```yaml
rules:
  - name: our_store
    says: our store is down
    kind: service            # a class of the table above
    service: our store       # which one: jobs that fail on it together open its breaker
    patterns: ['OurStore: quorum (?:lost|\\d{1,3} of \\d{1,3})']
    examples: ['OurStore: quorum lost at 12:30']
    # role: root             # or confirm, weak, cascade, tie, hint
    # streams: [app]         # who may say it: app, kernel, platform
    # retry, node, advice    # where they differ from the class
```

`weft.spec.failure_rules.read_rules(path)` reads such a file. What a program prints can make a node
suspect and nothing more, whatever a rule says: otherwise whoever prints a line could take machines
away from everybody.
"""


def page() -> str:
    return "\n".join([ABOUT, *_classes(), *_cures(), OWN, *_rules()])


def _classes() -> Iterator[str]:
    yield "## Classes\n\n| class | what it means | whose fault | retry | advice |"
    yield "|---|---|---|---|---|"
    for kind in FailureClass:
        facts = kind.facts
        yield f"| {kind} | {facts.meaning} | {facts.fault} | {facts.retry} | {facts.advice} |"


def _cures() -> Iterator[str]:
    yield "\n## Retries\n\n| retry | what is done |\n|---|---|"
    for cure, words in CURES.items():
        yield f"| {cure} | {words} |"
    yield f"\n{ABOVE_ALL}"


def _rules() -> Iterator[str]:
    yield "## Rules\n\n| rule | what happened | class | role | said by |\n|---|---|---|---|---|"
    for rule in shipped().rules:
        role, said = rule.role.name.lower(), ", ".join(sorted(rule.streams))
        yield f"| `{rule.name}` | {rule.says} | {rule.kind} | {role} | {said} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
