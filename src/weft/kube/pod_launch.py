"""How a worker's container begins, and how it hears that it has to end.

The first process of a container is deaf to SIGTERM unless it asks to hear it, and a shell does not
pass signals on. So the shell waits for what it started, and before it is signalled itself the hook
below hands SIGTERM to the shell's children; the agent, or a command that replaced the shell by
`exec`, is signalled by the kubelet alone. The kubelet does so once: the hook holds it back for a
while where a process that has just begun does not listen yet.
"""

import os
from typing import Final

HEAR_TERM: Final = "trap 'wait; exit 143' TERM; "
AGENT: Final = "weft-agent"
# The command comes as an argument, so nothing in it has to be quoted.
BY_AGENT: Final = (
    "trap 'exit 143' TERM; "
    f"if command -v {AGENT} >/dev/null 2>&1; "
    f'then exec {AGENT} pod -- /bin/sh -c "$1"; fi; '
)
LAUNCH: Final = f'{BY_AGENT}exec /bin/sh -c "{HEAR_TERM}$1"'
# For a job that says nproc_per_node: gpu, because a shell would start its command once.
LAUNCH_PER_GPU: Final = (
    f'{BY_AGENT}echo "nproc_per_node: gpu needs {AGENT}, and the image has none. '
    "Install Weft in the image, or remove nproc_per_node and run a launcher such as torchrun."
    f'" >&2; exit {os.EX_CONFIG}'
)
PASS_TERM_ON: Final = (
    "{ read -r first </proc/1/comm; "
    'if [ "$first" != sh ]; then '
    "for moment in 1 2 3 4 5 6 7 8 9 10; do "
    'while read -r key value; do [ "$key" = SigCgt: ] && break; done </proc/1/status; '
    "[ $((0x$value & 0x4000)) = 0 ] || exit 0; "  # it listens to SIGTERM
    "sleep 0.3 || sleep 1; "
    "done; exit 0; fi; "
    "for file in /proc/[0-9]*/status; do "
    "pid=${file#/proc/}; pid=${pid%/status}; "
    "while read -r key value; do "
    'case "$key $value" in '
    '"Name: tee"|"Name: cat") break ;; '  # they carry the output of what is saving
    '"PPid: 1") kill -TERM "$pid"; break ;; '
    "esac; "
    'done <"$file"; '
    "done; } 2>/dev/null; exit 0"
)
