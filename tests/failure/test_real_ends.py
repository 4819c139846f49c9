"""Programs that really fail, named by what they really print."""

import subprocess
import sys

import pytest

from weft.failure.diagnosis import Diagnosis, diagnose, gathered
from weft.failure.observed import Exit, Output
from weft.failure.rulebook import shipped

ENDS = {
    "syntax_error": "def f(:",
    "import_error": "import nothing_of_that_name",
    "python_semantic": "{}['input_ids']",
    "host_oom_python": "b = bytearray(1 << 62)",
    "input_missing": "open('/nowhere/train.bin')",
    "input_corrupt": "import json; json.loads('{')",
    "ckpt_corrupt": "import pickle; pickle.loads(b'garbage')",
    "disk_full": "open('/dev/full', 'w').write('x' * 99_999)",
    "too_many_files": (
        "import resource as r; r.setrlimit(r.RLIMIT_NOFILE, (20, 20))\n"
        "files = [open('/dev/null') for _ in range(99)]"
    ),
    "bad_argument": "import argparse; argparse.ArgumentParser().parse_args(['--lrr', '1'])",
    "http_failed": "import urllib.request as u; u.urlopen('http://127.0.0.1:9/')",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "generic_traceback": "class OddError(Exception): pass\nraise OddError('x')",
    "exit_crash": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "exit_abort": "import os; os.abort()",
    "bare_kill": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "no_signature": "raise SystemExit(3)",
    "segfault": "import faulthandler, ctypes; faulthandler.enable(); ctypes.string_at(0)",
}


@pytest.mark.parametrize(("rule", "program"), ENDS.items(), ids=ENDS)
def test_a_program_that_fails_is_named_by_what_it_prints(rule: str, program: str) -> None:
    assert _ended(program).rule == rule


def test_an_error_that_was_handled_is_not_the_cause() -> None:
    program = "try: {}['cache']\nexcept KeyError: open('/nowhere/cache')"
    assert _ended(program).rule == "input_missing"


def test_an_error_that_was_logged_and_survived_is_not_the_cause() -> None:
    program = (
        "import traceback\ntry: open('/nowhere/a')\nexcept OSError: traceback.print_exc()\n"
        "print('step 2 loss 1.9', flush=True)\nimport sys; sys.stderr.flush()\n[][7]"
    )
    assert _ended(program).rule == "python_semantic"


def _ended(program: str) -> Diagnosis:
    ended = subprocess.run(
        [sys.executable, "-u", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return diagnose(gathered([Output(ended.stdout), Exit(ended.returncode)]), shipped())
