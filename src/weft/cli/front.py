"""What `weft --help` shows: all commands under their headings, made without a parser.

It is what newcomers and shells ask for most, and click alone takes three times as long to import as
Python to start. A test holds it against what the group of commands would show.
"""

from weft.cli.entry import Entry

JOBS, WORLD, LAB = "Jobs", "World", "Lab"
COMMANDS = {
    "run": Entry("weft.cli.jobs.run:run", "Run a command as a job, without a file.", JOBS),
    "submit": Entry("weft.cli.jobs.submit:submit", "Submit the job that a file describes.", JOBS),
    "ls": Entry("weft.cli.jobs.ls:ls", "List jobs.", JOBS),
    "show": Entry("weft.cli.jobs.show:show", "Show one job in full.", JOBS),
    "why": Entry(
        "weft.cli.jobs.why:why", "Tell why a job waits, or waited in a recorded run.", JOBS
    ),
    "logs": Entry("weft.cli.jobs.logs:logs", "Print what a job's workers print.", JOBS),
    "wait": Entry("weft.cli.jobs.wait:wait", "Wait until a job runs or has ended.", JOBS),
    "cancel": Entry("weft.cli.jobs.cancel:cancel", "Ask for the end of jobs.", JOBS),
    "retry": Entry(
        "weft.cli.jobs.retry:retry", "Try jobs again that failed or were cancelled.", JOBS
    ),
    "checkpoint": Entry(
        "weft.cli.checkpoint.group:checkpoint", "List, show, export and import checkpoints.", JOBS
    ),
    "launch": Entry(
        "weft.cli.launch.command:launch", "Run a script with several workers on this machine.", JOBS
    ),
    "shell": Entry(
        "weft.cli.shell.command:shell", "Open a shell on GPUs, for as long as you work.", JOBS
    ),
    "plans": Entry(
        "weft.cli.spec.plans:plans", "Show how a model could be split, with time and memory.", JOBS
    ),
    "spec": Entry("weft.cli.spec.group:spec", "Begin, check and explain job files.", JOBS),
    "completion": Entry(
        "weft.cli.completion.command:completion", "Let TAB complete what you type.", WORLD
    ),
    "queues": Entry(
        "weft.cli.overview.queues:queues", "Show the queues and what is used of them.", WORLD
    ),
    "nodes": Entry("weft.cli.overview.nodes:nodes", "List the nodes and their GPUs.", WORLD),
    "failures": Entry(
        "weft.cli.overview.failures:failures", "Show what jobs fail of, and what that costs.", WORLD
    ),
    "top": Entry("weft.cli.overview.top:top", "Show how full the world is, and what runs.", WORLD),
    "doctor": Entry("weft.cli.overview.doctor:doctor", "Check that everything is in place.", WORLD),
    "context": Entry(
        "weft.cli.context.group:context", "Choose the world: this machine, a cluster.", WORLD
    ),
    "local": Entry("weft.cli.local.group:local", "Start and stop a world on this machine.", WORLD),
    "operator": Entry(
        "weft.cli.operator.command:operator", "Run a cluster's operator (the chart does).", WORLD
    ),
    "simulate": Entry("weft.cli.lab.simulate:simulate", "Run one workload under one recipe.", LAB),
    "compare": Entry("weft.cli.lab.compare:compare", "Run several recipes side by side.", LAB),
    "recipes": Entry(
        "weft.cli.recipes.group:recipes", "List and explain recipes, or begin one.", LAB
    ),
    "trace": Entry("weft.cli.trace.group:trace", "Show, import and generate workloads.", LAB),
    "replay": Entry("weft.cli.lab.replay:replay", "Check that a journal replays bit for bit.", LAB),
}

ABOUT = (
    "Weft decides who trains when, where and how wide on shared GPUs.",
    "Commands for jobs speak to a world: this machine (weft local up) or a cluster (your "
    "kubeconfig); weft context chooses. Those of the lab need neither, nor a GPU.",
)
NO_COLOR = "Print without colours, as NO_COLOR does."
VERBOSE = "Say which world is spoken to, into a pipe too."
OPTIONS = {
    "--version": "Show the version and exit.",
    "--no-color": NO_COLOR,
    "-v, --verbose": VERBOSE,
    "-h, --help": "Show this message and exit.",
}
EPILOG = "Start with: weft compare, weft local up, or on a cluster: weft doctor"
MOST_COLUMNS, LEAST_COLUMNS = 100, 52


def front_page(columns: int) -> str:
    """The page for a terminal of so many columns."""
    width = max(min(columns, MOST_COLUMNS), LEAST_COLUMNS) - 2
    lines = ["Usage: weft [OPTIONS] COMMAND [ARGS]...", ""]
    for paragraph in ABOUT:
        lines += [*wrapped(paragraph, width, "  "), ""]
    lines += [*_rows("Options", OPTIONS, width), ""]
    sections = dict.fromkeys(entry.section for entry in COMMANDS.values())
    widest = max(map(len, COMMANDS))
    for section in sections:
        inside = {
            name.ljust(widest): entry.help
            for name, entry in COMMANDS.items()
            if entry.section == section
        }
        lines += [*_rows(section, inside, width), ""]
    return "\n".join([*lines, *wrapped(EPILOG, width, "  ")])


def wrapped(text: str, width: int, indent: str, first: str | None = None) -> list[str]:
    """Lines of at most that width, the first one with another beginning."""
    lines = [indent if first is None else first]
    bare = True
    for word in text.split():
        if not bare and len(lines[-1]) + 1 + len(word) > width:
            lines.append(indent)
            bare = True
        lines[-1] += word if bare else f" {word}"
        bare = False
    return lines


def _rows(heading: str, rows: dict[str, str], width: int) -> list[str]:
    column = max(map(len, rows)) + 4
    lines = [f"{heading}:"]
    for name, text in rows.items():
        lines += wrapped(text, width, " " * column, f"  {name}".ljust(column))
    return lines
