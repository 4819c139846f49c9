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
  over 80 s. Daemon and operator ask the services whose [address](#rules-of-your-own) they were
  given. Where nobody can ask, jobs try again after ten minutes.
- **Nodes set aside.** Nothing starts on a node that its kernel or several users' jobs blame
  (`Health.SetAside`), until a check passes; at most 5 % of a pool, or one node. A node that failed
  three jobs in four weeks, more than its neighbours and by its kernel's word, must be repaired.
- **Seats kept.** A gang of 64 GPUs or more that failed, or lost a worker or a node, finds its seats
  again: nobody else is given them for ten minutes (`Reservation.Kept`, and `why` says so to both),
  so that a large job that fails often does not drive others out each time. What a queue was lent is
  not kept ([ADR 57](adr/0057-a-failed-gang-keeps-its-seats.md)).
- **Neighbours.** Jobs on one server slow each other. Who slows whom is learnt from measured speeds,
  by program; among places that are equally good a job gets one where it slows nobody, and
  `weft why JOB --run DIR` names a neighbour that slows it.
- **Trials.** Where the brain is set to it, a gang that waits runs its first minutes on one GPU, in
  a pool of at most a hundredth of the GPUs, or one; what that shows is held against the gang. On
  one machine `weft local up --trial-minutes 5` does so, in a cluster `failures.trialMinutes` of the
  chart. The trial is a job `NAME.trial` with `WEFT_TRIAL=1` and no checkpoints of the gang's, and
  only what would come at any width counts (a typing error, a missing package, file, image or
  right). It is called off when its gang can start, and in a cluster it goes with its gang's object.
  It does run the program, so it is off unless asked for.

All of it can be tried out: `weft simulate --failures philly` draws failures like Philly's, bad
nodes and outages from the seed, and `weft why JOB --run DIR` tells of a failed job the class, the
line, what was done and what to do. This page is written by `python -m weft.lab.failures_page`.
"""
CURES = {
    Retry.STOP: "none; one more try where it came after an hour of running",
    Retry.CHANGE: "one try with what the job offers to change, otherwise as `stop`",
    Retry.CONFIRM: "one try, on other nodes if there are some; the same again is final",
    Retry.BACK_OFF: "after 60 s (10 s on one machine), twice as long each time up to 30 min, "
    "five in a day",
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
services:                    # where they are that rules name, those of the table below too
  our store: http://store.example.org:9000/health
  hdfs: tcp://namenode.example.org:8020
```

A service with an address is asked every 30 s while its breaker is open: a connection, or one
request whose status is read (below 500, and not 429: it answers). It has five seconds, redirects
are not followed, and nothing that a job prints is ever called on. On Kubernetes the operator asks;
behind a network policy it needs `failures.servicePorts`.

`weft local up --failure-rules FILE` reads such a file, and the chart `failures.rulesConfigMap`
(with the file as `rules.yaml`). What a program prints can make a node
suspect and nothing more, whatever a rule says: otherwise whoever prints a line could take machines
away from everybody.
"""


EVIDENCE = """\
## What is looked at

| what | on one machine | on Kubernetes |
|---|---|---|
| exit code or signal of the worker that ended the job | the agent | the agent, the container |
| torch's error file, the end of each rank's log | `evidence.json` beside the run's logs | the pod's termination message: the lines that rules name, at most 4 kB |
| a hang: stacks of every thread of every rank, taken before the kill; NCCL's record of collectives where there is one | `worker-N.stacks`, `worker-N.nccl-RANK` beside the logs | that there was one |
| processes killed for want of memory | the cgroup's count, the kernel's log | the cgroup's count, `OOMKilled` |
| the kernel | `/dev/kmsg`, where the daemon may read it: lines about the job's processes, about its GPUs (by their PCI address, where `nvidia-smi` tells it), and about the whole machine | what the Node Problem Detector makes of it |
| the node | probes | conditions (`DiskPressure`, `KernelDeadlock`, …) that began at most five minutes before the end; taints of devices, by their DRA driver or by a DeviceTaintRule where the API server knows them |
| an image, a command, a configuration that keeps pods from starting | | what the kubelet says; what no wait cures is final after 10 s |

Stacks are taken from programs that `import weft`, and from Python scripts that an agent forks. What
an agent says counts as its job's own word, because it runs as the job's owner: it cannot make a
node suspect.

Probes are `python -m weft.agent.probes` (or `weft doctor --probes`): disk, memory, processors,
loopback, a sum between two ranks over gloo (`pair`), and `dcgmi` where it is installed. All of them
together have a minute. The daemon of a machine runs the quick ones every five minutes (the first
five minutes after its start) and after failures that a machine may be at fault for. Before a gang
starts it runs them all, unless it did within the last hour (`weft local up --gang-probe-hours 1`).
While one fails nothing starts (`Health.Probe`).

On Kubernetes `probes.enabled` of the chart runs the quick ones on every node, in a DaemonSet whose
pods are ready while all pass; the operator reads that and needs no right for it. Nothing starts on
a node while a probe fails: `weft nodes` says which, and the alert `WeftNodesNeedPeople` fires. A
node that was set aside comes back when its probes have passed since. The operator asks them after a
minute, which costs one look more: 0.4 s of one core (at the usual one in five minutes, 0.13 % of
it). Who does not pass then is checked after ten minutes and more. Where the probes do not listen
(`probes.gangGpus=0`), seven minutes are waited for, in which they have run by themselves. Where
nothing probes, or a node has to be repaired, somebody says so: `kubectl annotate node NODE
--overwrite weft.dev/repaired=$(date -u +%FT%TZ)`. Pods elsewhere with the same label say nothing.

Before a gang of 8 GPUs or more starts (`probes.gangGpus`), the operator asks the probes of its
nodes: those that looked within the last minute answer at once, the others look now. The gang waits
for a minute at most (`Health.Probed`); a node that fails, or does not answer in time, takes nobody,
and the gang is seated anew. Where nobody listens it starts as it would without. Nodes that such a
gang grows onto are asked too, and it trains on as it is meanwhile; if one is not well, it does not
grow, and an event of the job (`NotResized`) says why.

## Where to see it

`weft why JOB` and `weft show JOB` tell of a failed job the class, the line, what was done, what to
do, and how to see the rank's log. `weft failures` ranks the causes by the GPU time that was lost to
them (`--by class|queue|owner`, `--everyone`, `--run DIR` for a recorded run); GPU time counts as
lost where nothing was saved of it. `weft nodes` shows what is held against each node, and which of
its devices are tainted, which are not among its GPUs. All have JSON twins. On Kubernetes a
TrainingJob keeps its last five failures in `status.failures`; metrics are `weft_failures_total`,
`weft_breakers_open` and `weft_nodes_aside`, and the chart brings alerts.

## Who is told

Whoever runs a world writes a file that names targets and rules, and gives it to
`weft local up --notify FILE`, or puts it as `notify.yaml` into a Secret that the chart is told
(`failures.notifySecret`; it lies below `/etc/weft/notify`). Secrets lie in files of their own.

```yaml
targets:
  team: {kind: slack, url_file: /etc/weft/notify/slack-url}
  hook: {kind: webhook, url: https://hooks.example.org/weft, token_file: /etc/weft/notify/token}
  mail: {kind: mail, host: smtp.example.org, sender: weft@example.org, to: [ml@example.org]}
rules:
  - {on: [failed, preempted], to: [team], queue: research}
  - {on: [started, ended], to: [hook], owner: anna}
```

A job file names targets too: `notify: {on: [failed, ended], to: [team]}`. A webhook gets
CloudEvents (`dev.weft.job.failed.v1`) whose id stays the same if they are told again. A notice is
sent up to five times within two minutes and then dropped; nobody waits for it, and no more than
1,000 wait at a time.
"""  # noqa: E501 - rows of a table


def page() -> str:
    return "\n".join([ABOUT, *_classes(), *_cures(), EVIDENCE, OWN, *_rules()])


def _classes() -> Iterator[str]:
    yield "## Classes\n\n| class | what it means | whose fault | retry | advice | when given up |"
    yield "|---|---|---|---|---|---|"
    for kind in FailureClass:
        facts = kind.facts
        known = kind, facts.meaning, facts.fault, facts.retry, facts.advice, facts.given_up
        yield f"| {' | '.join(known)} |"


def _cures() -> Iterator[str]:
    yield "\n## Retries\n\n| retry | what is done |\n|---|---|"
    for cure, words in CURES.items():
        yield f"| {cure} | {words} |"
    yield f"\n{ABOVE_ALL}"


def _rules() -> Iterator[str]:
    yield "## Rules\n\nWhere a retry is named, the rule has it instead of its class.\n"
    yield "| rule | what happened | class | retry | role | said by |\n|---|---|---|---|---|---|"
    for rule in shipped().rules:
        role, said = rule.role.name.lower(), ", ".join(sorted(rule.streams))
        own = rule.retry or ""
        yield f"| `{rule.name}` | {rule.says} | {rule.kind} | {own} | {role} | {said} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
